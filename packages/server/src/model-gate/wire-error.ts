/**
 * Errors as engines read them on the Anthropic wire, from our codes and from what providers answer. The status tells a
 * client whether to try again: 410 (stale) and 402 (a limit of the run) end it, 429 and 5xx are tried again.
 */
import type { IncomingHttpHeaders, ServerResponse } from "node:http";
import { CODE_HEADER, ERROR_CODES, type ErrorCode, type PlatformError } from "@signalbox/contract";

export interface WireError {
  readonly status: number;
  /** Anthropic's error type. */
  readonly type: string;
  readonly message: string;
  readonly code: ErrorCode;
  readonly retryAfterSeconds: number | null;
}

/** Where the status of the table would make an engine try again what must end, or not try what may pass. */
const STATUS_AT_GATE: Partial<Readonly<Record<ErrorCode, number>>> = {
  run_timeout: 402,
  retries_exhausted: 402,
  provider_overloaded: 529,
};

const TYPE_OF_STATUS: Readonly<Record<number, string>> = {
  400: "invalid_request_error",
  401: "authentication_error",
  402: "billing_error",
  403: "permission_error",
  404: "not_found_error",
  410: "permission_error",
  413: "request_too_large",
  422: "invalid_request_error",
  429: "rate_limit_error",
  503: "overloaded_error",
  504: "timeout_error",
  529: "overloaded_error",
};

const CODE_OF_STATUS: Readonly<Record<number, ErrorCode>> = {
  408: "provider_timeout",
  413: "payload_too_large",
  429: "provider_rate_limited",
  503: "provider_overloaded",
  504: "provider_timeout",
  529: "provider_overloaded",
};

const CODE_OF_TYPE: Readonly<Record<string, ErrorCode>> = {
  api_error: "provider_failed",
  overloaded_error: "provider_overloaded",
  rate_limit_error: "provider_rate_limited",
  timeout_error: "provider_timeout",
};

const MESSAGE_CHARS_MAX = 2_000;

export function ourError(error: PlatformError): WireError {
  const status = STATUS_AT_GATE[error.code] ?? error.facts.status;
  return {
    status,
    type: TYPE_OF_STATUS[status] ?? "api_error",
    message: error.detail,
    code: error.code,
    retryAfterSeconds: error.retryAfterMs === null ? null : Math.ceil(error.retryAfterMs / 1_000),
  };
}

export interface ProviderAnswer {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
  readonly nowMs: number;
  /** Never shown, should the provider repeat it. */
  readonly apiKey: string | null;
}

/**
 * A provider's refusal, with its own status and words. Only a 401 becomes a 403: it speaks about the platform's key,
 * and engines try a 401 again for minutes.
 */
export function providerError(answer: ProviderAnswer): WireError {
  const told = readError(answer.body);
  const status = answer.status === 401 ? 403 : answer.status < 400 ? 502 : answer.status;
  const message = told.message ?? `The model provider answered with status ${answer.status}.`;
  return {
    status,
    type: answer.status === 401 ? "permission_error" : (told.type ?? TYPE_OF_STATUS[status] ?? "api_error"),
    message: withoutKey(message, answer.apiKey).slice(0, MESSAGE_CHARS_MAX).toWellFormed(),
    code: CODE_OF_STATUS[answer.status] ?? (answer.status >= 500 ? "provider_failed" : "provider_error"),
    retryAfterSeconds: status === 429 || status >= 500 ? retryAfterSeconds(answer.headers, answer.nowMs) : null,
  };
}

/** The code of an `error` event inside a stream. */
export function codeOfErrorType(type: string): ErrorCode {
  return CODE_OF_TYPE[type] ?? "provider_error";
}

function errorJson(error: WireError): string {
  return JSON.stringify({ type: "error", error: { type: error.type, message: error.message, code: error.code } });
}

/**
 * An `error` event of our own. What may pass is called `overloaded_error`: it is the only type that engines try again.
 */
export function errorEvent(error: WireError): string {
  const type = ERROR_CODES[error.code].retryable ? "overloaded_error" : error.type;
  return `event: error\ndata: ${errorJson({ ...error, type })}\n\n`;
}

export function sendError(response: ServerResponse, error: WireError): void {
  if (response.writableEnded) return;
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  response.writeHead(error.status, {
    "content-type": "application/json",
    [CODE_HEADER]: error.code,
    ...(error.retryAfterSeconds === null ? {} : { "retry-after": String(error.retryAfterSeconds) }),
    ...(error.code === "payload_too_large" ? { connection: "close" } : {}),
  });
  response.end(errorJson(error));
}

/**
 * How long a provider asks to wait, in whole seconds and never less; `null` when it says nothing that makes sense. A
 * wait that is far too long is passed on as it is: the engine then gives up instead of asking too early.
 */
function retryAfterSeconds(headers: IncomingHttpHeaders, nowMs: number): number | null {
  const milliseconds = headers["retry-after-ms"];
  if (typeof milliseconds === "string" && /^\d+(\.\d+)?$/.test(milliseconds)) {
    return Math.ceil(Number(milliseconds) / 1_000);
  }
  const text = headers["retry-after"];
  if (text === undefined) return null;
  if (/^\d+(\.\d+)?$/.test(text)) return Math.ceil(Number(text));
  // A date begins with the name of a day; Date.parse would make a year of a stray number.
  const atMs = /^[A-Z][a-z]{2}/.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(atMs) ? null : Math.max(0, Math.ceil((atMs - nowMs) / 1_000));
}

function readError(body: string): { readonly type: string | null; readonly message: string | null } {
  try {
    // Whatever the provider sent; each step below looks before it uses.
    const value = JSON.parse(body) as {
      readonly error?: { readonly type?: unknown; readonly message?: unknown };
    } | null;
    const { type, message } = value?.error ?? {};
    return {
      type: typeof type === "string" && /^[a-z_]{1,64}$/.test(type) ? type : null,
      message: typeof message === "string" && message !== "" ? message : null,
    };
  } catch {
    return { type: null, message: null };
  }
}

function withoutKey(text: string, apiKey: string | null): string {
  return apiKey === null || apiKey === "" ? text : text.replaceAll(apiKey, "[redacted]");
}
