/** What a gate's refusal means. Our own code travels in a header or in the body; the status speaks for the rest. */
import type { IncomingHttpHeaders } from "node:http";
import {
  clip,
  CODE_HEADER,
  isErrorCode,
  PlatformError,
  RETRY_AFTER_HEADER,
  wellFormed,
  type ErrorCode,
} from "@signalbox/contract";

const DETAIL_CHARS_MAX = 500;

/** The Anthropic wire's names for what went wrong, also inside a stream that began with 200. */
const CODE_OF_TYPE: Readonly<Record<string, ErrorCode>> = {
  overloaded_error: "provider_overloaded",
  rate_limit_error: "provider_rate_limited",
  timeout_error: "provider_timeout",
  api_error: "provider_failed",
  invalid_request_error: "provider_error",
  authentication_error: "provider_error",
  permission_error: "model_not_granted",
  not_found_error: "model_unknown",
  request_too_large: "payload_too_large",
};

const CODE_OF_STATUS: Readonly<Record<number, ErrorCode>> = {
  400: "provider_error",
  401: "slot_unknown",
  403: "model_not_granted",
  404: "model_unknown",
  408: "provider_timeout",
  410: "stale_generation",
  413: "payload_too_large",
  429: "provider_rate_limited",
  500: "provider_failed",
  502: "provider_unreachable",
  503: "provider_overloaded",
  504: "provider_timeout",
  529: "provider_overloaded",
};

/** The error of a model call that was not answered with 200. */
export function modelGateError(status: number, headers: IncomingHttpHeaders, body: string): PlatformError {
  const error = errorMember(parse(body));
  // A refusal nobody listed stands, whatever it calls itself: only what a status or our own code allows is retried.
  const listed = CODE_OF_STATUS[status] ?? (status >= 500 ? CODE_OF_TYPE[text(error?.type)] : undefined);
  const code = ourCode(headers, error) ?? listed ?? "provider_error";
  const retryAfterMs = readRetryAfter(headers, Date.now());
  return new PlatformError(code, detailOf(error), retryAfterMs === null ? {} : { retryAfterMs });
}

/** The error of an `error` event inside a stream. */
export function modelStreamError(event: unknown): PlatformError {
  const error = errorMember(event);
  return new PlatformError(ourCode({}, error) ?? CODE_OF_TYPE[text(error?.type)] ?? "provider_error", detailOf(error));
}

/** The error of a tool call that was not answered with 200. */
export function toolGateError(status: number, headers: IncomingHttpHeaders, body: string): PlatformError {
  const error = errorMember(parse(body));
  const fallback = status === 410 ? "stale_generation" : status === 401 ? "slot_unknown" : "tool_upstream_failed";
  return new PlatformError(ourCode(headers, error) ?? fallback, detailOf(error));
}

/**
 * How long to wait before trying again, or `null` when nothing usable was said. Seconds, an HTTP date, or the
 * milliseconds some providers add.
 */
export function readRetryAfter(headers: IncomingHttpHeaders, nowMs: number): number | null {
  const milliseconds = headers[RETRY_AFTER_HEADER] ?? headers["retry-after-ms"];
  if (typeof milliseconds === "string" && /^\d+(\.\d+)?$/.test(milliseconds)) {
    return Math.ceil(Number(milliseconds));
  }
  const said = headers["retry-after"];
  if (said === undefined) {
    return null;
  }
  if (/^\d+(\.\d+)?$/.test(said)) {
    return Math.ceil(Number(said) * 1_000);
  }
  const atMs = /^[A-Za-z]{3}, /.test(said) ? Date.parse(said) : Number.NaN;
  return Number.isNaN(atMs) ? null : Math.max(0, atMs - nowMs);
}

interface ErrorMember {
  readonly type?: unknown;
  readonly code?: unknown;
  readonly message?: unknown;
  readonly data?: { readonly code?: unknown };
}

function ourCode(headers: IncomingHttpHeaders, error: ErrorMember | null): ErrorCode | null {
  const candidates = [headers[CODE_HEADER], error?.code, error?.data?.code];
  for (const candidate of candidates) {
    if (typeof candidate === "string" && isErrorCode(candidate)) {
      return candidate;
    }
  }
  return null;
}

function errorMember(value: unknown): ErrorMember | null {
  if (typeof value !== "object" || value === null || !("error" in value)) {
    return null;
  }
  const { error } = value;
  return typeof error === "object" && error !== null ? error : null;
}

function detailOf(error: ErrorMember | null): string | undefined {
  const message = text(error?.message);
  return message === "" ? undefined : clip(wellFormed(message), DETAIL_CHARS_MAX);
}

function text(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function parse(body: string): unknown {
  try {
    return JSON.parse(body);
  } catch {
    return null;
  }
}
