/** Errors become RFC 9457 problem documents here and nowhere else. */
import { clip, PlatformError, wellFormed, type ErrorCode, type FieldError, type Problem } from "@signalbox/contract";
import { ZodError } from "zod";
import { jsonPointer } from "./json-pointer.ts";

const FIELDS_LIMIT = 32;
const POINTER_LIMIT_CHARS = 200;
const DETAIL_LIMIT_CHARS = 2_000;
/** Asked for where nothing better is known. */
const RETRY_AFTER_MS = 1_000;

export function problemOf(error: PlatformError, request: { readonly id: string; readonly url: string }): Problem {
  const facts = error.facts;
  return {
    ...error.extra,
    type: `/errors/${error.code}`,
    title: facts.title,
    status: facts.status,
    detail: clip(wellFormed(error.detail), DETAIL_LIMIT_CHARS),
    instance: request.url.split("?")[0] ?? "/",
    code: error.code,
    fault: facts.fault,
    retryable: facts.retryable,
    requestId: request.id,
    errors: error.fields.slice(0, FIELDS_LIMIT).map(({ pointer, detail }) => ({
      pointer: clip(wellFormed(pointer), POINTER_LIMIT_CHARS),
      detail: clip(wellFormed(detail), DETAIL_LIMIT_CHARS),
    })),
  };
}

/** Headers that say the same as the problem to those who read no bodies. */
export function problemHeaders(error: PlatformError): Readonly<Record<string, string>> {
  const { status, fault } = error.facts;
  const waits = status === 429 || status === 503;
  const retryAfterMs = error.retryAfterMs ?? (waits ? RETRY_AFTER_MS : null);
  const { allow } = error.extra;
  return {
    ...(retryAfterMs === null ? {} : { "retry-after": String(secondsOf(retryAfterMs)) }),
    ...rateLimitHeaders(error, retryAfterMs ?? RETRY_AFTER_MS),
    // Common clients retry every 409 by themselves; one of the caller's or the policy's does not pass by waiting a moment.
    ...(status === 409 && (fault === "caller" || fault === "policy") ? { "x-should-retry": "false" } : {}),
    ...(status === 401 ? { "www-authenticate": 'Bearer realm="signalbox"' } : {}),
    ...(typeof allow === "string" ? { allow } : {}),
  };
}

/** Names of the limits in `RateLimit` and `RateLimit-Policy`, with their windows in seconds where they have one. */
const LIMIT_OF: Partial<Record<ErrorCode, { readonly name: string; readonly windowSeconds: number | null }>> = {
  message_rate_exceeded: { name: "messages-per-conversation", windowSeconds: 60 },
  queue_full: { name: "queued-runs-per-conversation", windowSeconds: null },
  too_many_runs: { name: "open-runs-per-tenant", windowSeconds: null },
};

function rateLimitHeaders(error: PlatformError, retryAfterMs: number): Readonly<Record<string, string>> {
  const limited = LIMIT_OF[error.code];
  const { limit } = error.extra;
  if (limited === undefined || typeof limit !== "number") return {};
  const { name, windowSeconds } = limited;
  return {
    "ratelimit-policy": `"${name}";q=${limit}${windowSeconds === null ? "" : `;w=${windowSeconds}`}`,
    ratelimit: `"${name}";r=0;t=${secondsOf(retryAfterMs)}`,
  };
}

function secondsOf(durationMs: number): number {
  return Math.max(1, Math.ceil(durationMs / 1_000));
}

/** What the HTTP server, a parser or a schema threw, in our words. What nobody expected stays private. */
export function fromThrown(thrown: unknown): PlatformError {
  if (thrown instanceof PlatformError) return thrown;
  if (thrown instanceof ZodError) return fromBodyIssues(thrown);
  const code = thrown instanceof Error && "code" in thrown ? thrown.code : null;
  switch (code) {
    case "FST_ERR_CTP_BODY_TOO_LARGE":
      return new PlatformError("payload_too_large", undefined, { cause: thrown });
    case "FST_ERR_CTP_INVALID_MEDIA_TYPE":
      return new PlatformError("unsupported_media_type", undefined, { cause: thrown });
    case "FST_ERR_CTP_INVALID_CONTENT_LENGTH":
    case "ECONNRESET":
      return new PlatformError("invalid_request", "The body is not as long as it was announced.", { cause: thrown });
    case "FST_ERR_BAD_URL":
      return new PlatformError("invalid_request", "The address is not validly encoded.", { cause: thrown });
    case "FST_ERR_MAX_PARAM_LENGTH":
      return new PlatformError("not_found", undefined, { cause: thrown });
    default:
      return new PlatformError("internal", undefined, { cause: thrown });
  }
}

/** A body that its schema refused. Fields are named by their JSON pointers (RFC 6901). */
export function fromBodyIssues(error: ZodError): PlatformError {
  return fromIssues(error, jsonPointer);
}

/** A query that its schema refused. Fields are named as the parameters are. */
export function fromQueryIssues(error: ZodError): PlatformError {
  return fromIssues(error, (path) => path.map(String).join("."));
}

function fromIssues(error: ZodError, nameOf: (path: readonly PropertyKey[]) => string): PlatformError {
  const unknown: FieldError[] = [];
  const invalid: FieldError[] = [];
  for (const issue of error.issues) {
    if (issue.code === "unrecognized_keys") {
      for (const key of issue.keys) {
        unknown.push({ pointer: nameOf([...issue.path, key]), detail: "There is no such field." });
      }
    } else {
      invalid.push({ pointer: nameOf(issue.path), detail: isMissing(issue) ? "is missing" : issue.message });
    }
  }
  const fields = [...unknown, ...invalid];
  return unknown.length > 0
    ? new PlatformError("field_unknown", `The request has a field that does not exist: ${namesOf(unknown)}.`, {
        fields,
      })
    : new PlatformError("invalid_request", `The request is not valid at ${namesOf(invalid)}.`, { fields });
}

/** A parser says it in its own words, and of a union only that nothing fitted. */
function isMissing(issue: ZodError["issues"][number]): boolean {
  if (issue.code === "invalid_type") return issue.message.endsWith("received undefined");
  if (issue.code !== "invalid_union" || issue.errors.length === 0) return false;
  return issue.errors.every((branch) => branch.some((each) => each.path.length === 0 && isMissing(each)));
}

function namesOf(fields: readonly FieldError[]): string {
  const named = fields.slice(0, FIELDS_LIMIT).map(({ pointer }) => (pointer === "" ? "the body" : pointer));
  return named.join(", ");
}
