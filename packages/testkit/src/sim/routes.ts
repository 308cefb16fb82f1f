/** Which address means what, and what a body must be before any wire looks at it. */
import { isUtf8 } from "node:buffer";
import { isObject, type JsonObject, parseJson } from "./json.ts";
import { WireError } from "./wire-error.ts";
import { anthropicWire } from "./wires/anthropic.ts";
import { completionsWire } from "./wires/completions.ts";
import { responsesWire } from "./wires/responses.ts";
import type { Wire } from "./wires/wire.ts";

export const MOST_BODY_BYTES = 32 * 1024 * 1024;

export type Route =
  | { readonly to: "model"; readonly wire: Wire }
  | { readonly to: "count_tokens" | "embeddings" | "models" | "about" | "requests" }
  | { readonly to: "model_info"; readonly id: string };

const POSTS: ReadonlyMap<string, Route> = new Map([
  ["/v1/messages", { to: "model", wire: anthropicWire }],
  ["/v1/chat/completions", { to: "model", wire: completionsWire }],
  ["/v1/responses", { to: "model", wire: responsesWire }],
  ["/v1/messages/count_tokens", { to: "count_tokens" }],
  ["/v1/embeddings", { to: "embeddings" }],
]);

const GETS: ReadonlyMap<string, Route> = new Map([
  ["/", { to: "about" }],
  ["/v1/models", { to: "models" }],
  ["/sim/requests", { to: "requests" }],
]);

const MODEL_PREFIX = "/v1/models/";

export function routeOf(method: string, path: string): Route | null {
  if (method === "POST") {
    return POSTS.get(path) ?? null;
  }
  if (method !== "GET") {
    return null;
  }
  const known = GETS.get(path);
  if (known !== undefined || !path.startsWith(MODEL_PREFIX)) {
    return known ?? null;
  }
  return { to: "model_info", id: decodeURIComponent(path.slice(MODEL_PREFIX.length)) };
}

/** The wire in whose shape an error at this address is written. */
export function wireOfPath(path: string): Wire {
  return path.startsWith("/v1/messages") || !path.startsWith("/v1/") ? anthropicWire : completionsWire;
}

/** The body as a JSON object. Ends with a `WireError` of 400 for anything else, also for half a surrogate pair. */
export function readBody(bytes: Buffer): JsonObject {
  if (!isUtf8(bytes)) {
    throw new WireError(400, "The request body is not valid UTF-8.");
  }
  const text = bytes.toString("utf8");
  const value = parseJson(text);
  if (!isObject(value)) {
    throw new WireError(400, "The request body is not valid JSON.");
  }
  if (/\\u[dD][89a-fA-F]/.test(text) && !isWellFormed(value)) {
    throw new WireError(400, "The request body is not valid JSON: it holds half of a surrogate pair.");
  }
  return value;
}

function isWellFormed(value: unknown): boolean {
  if (typeof value === "string") {
    return value.isWellFormed();
  }
  if (Array.isArray(value)) {
    return value.every(isWellFormed);
  }
  return isObject(value)
    ? Object.entries(value).every(([key, each]) => key.isWellFormed() && isWellFormed(each))
    : true;
}
