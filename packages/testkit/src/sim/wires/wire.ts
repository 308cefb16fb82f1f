/** What the three model wires have in common for the player: parse a request, write an answer whole or as a stream. */
import type { SimRequest, WireName } from "../conversation.ts";
import type { Block, Delivery, WrittenBlock } from "../delivery.ts";
import type { IdSource } from "../ids.ts";
import type { JsonObject } from "../json.ts";
import type { ErrorBody } from "../wire-error.ts";

export interface Envelope {
  readonly request: SimRequest;
  readonly delivery: Delivery;
  readonly ids: IdSource;
  readonly createdAtMs: number;
}

/** Turns what happens into the bytes of one stream. Every method answers with whole events. */
export interface Encoder {
  begin(): string;
  open(block: Block): string;
  token(text: string): string;
  close(): string;
  end(): string;
  error(error: ErrorBody): string;
  /** Written while nothing else is; empty on a wire without such a thing. */
  readonly ping: string;
}

export interface Wire {
  readonly name: WireName;
  /** Ends with a `WireError` for a body a provider would refuse. */
  parse(body: JsonObject): SimRequest;
  encoder(envelope: Envelope): Encoder;
  whole(blocks: readonly WrittenBlock[], envelope: Envelope): JsonObject;
  errorBody(error: ErrorBody, details: { readonly status: number; readonly requestId: string }): JsonObject;
  readonly requestIdHeader: string;
}

export function sseEvent(type: string, data: string): string {
  return `event: ${type}\ndata: ${data}\n\n`;
}

/** Text as JSON; a lone half of a surrogate pair never leaves the server. */
export function jsonText(text: string): string {
  return JSON.stringify(text.isWellFormed() ? text : text.toWellFormed());
}
