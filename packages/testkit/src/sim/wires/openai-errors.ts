/** Errors as the OpenAI wires shape them; our scripts name their kind in Anthropic's words. */
import type { JsonObject } from "../json.ts";
import { type ErrorBody, statusOfType } from "../wire-error.ts";

interface OpenAiKind {
  readonly type: string;
  readonly code: string | null;
}

const KINDS: ReadonlyMap<number, OpenAiKind> = new Map([
  [401, { type: "invalid_request_error", code: "invalid_api_key" }],
  [402, { type: "insufficient_quota", code: "insufficient_quota" }],
  [404, { type: "invalid_request_error", code: "not_found" }],
  [429, { type: "requests", code: "rate_limit_exceeded" }],
]);

export function openAiKind(error: ErrorBody, status: number = statusOfType(error.type)): OpenAiKind {
  const known = KINDS.get(status);
  if (known !== undefined) {
    return known;
  }
  return status < 500 ? { type: "invalid_request_error", code: null } : { type: "server_error", code: null };
}

export function openAiErrorBody(error: ErrorBody, details: { readonly status: number }): JsonObject {
  return { error: { message: error.message, ...openAiKind(error, details.status), param: null } };
}
