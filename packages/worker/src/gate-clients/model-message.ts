/**
 * A message of the Anthropic wire, put together from its stream. Text of a block is the sum of its deltas; a message
 * counts only when the provider has said how it stopped.
 */
import { PlatformError, wellFormed, wellFormedJson, type Json } from "@signalbox/contract";
import { modelStreamError } from "./gate-errors.ts";

/** A JSON object, as tools take and describe it. */
export type JsonObject = { readonly [key: string]: Json };

/** A content block as it stands in a message, on the wire and in a transcript. */
export type ModelBlock =
  | { readonly type: "text"; readonly text: string }
  | { readonly type: "thinking"; readonly thinking: string; readonly signature: string }
  | { readonly type: "redacted_thinking"; readonly data: string }
  | { readonly type: "tool_use"; readonly id: string; readonly name: string; readonly input: JsonObject };

/** A whole message of a model: its blocks, why it stopped, and which model served it. */
export interface ModelMessage {
  readonly content: readonly ModelBlock[];
  /** As the provider said it. */
  readonly stopReason: string;
  readonly servedModel: string;
}

/** What is said while the message comes. `block` is its place in the message. */
export type ModelDelta =
  | { readonly type: "text" | "thinking"; readonly block: number; readonly text: string }
  | { readonly type: "block_stopped"; readonly block: number };

/** The members of wire events this client reads; anything else is passed over. */
interface WireEvent {
  readonly type?: string;
  readonly index?: number;
  readonly message?: { readonly model?: string };
  readonly content_block?: OpenBlock;
  readonly delta?: WireDelta;
}

interface WireDelta {
  readonly type?: string;
  readonly text?: string;
  readonly thinking?: string;
  readonly signature?: string;
  readonly partial_json?: string;
  readonly stop_reason?: string | null;
}

interface OpenBlock {
  readonly type?: string;
  readonly text?: string;
  readonly thinking?: string;
  readonly signature?: string;
  readonly data?: string;
  readonly id?: string;
  readonly name?: string;
  readonly input?: unknown;
}

interface Building extends OpenBlock {
  said: string;
  sealed: string;
}

export class ModelMessageBuilder {
  readonly #blocks: Building[] = [];
  #servedModel = "";
  #stopReason: string | null = null;
  #stopped = false;

  /** Takes one event of the stream; returns what of it is worth telling at once. Throws what an error event says. */
  take(data: string): ModelDelta | null {
    const event = parseEvent(data);
    switch (event.type) {
      case "message_start":
        this.#servedModel = event.message?.model ?? "";
        return null;
      case "content_block_start":
        return this.#open(event.index ?? -1, event.content_block ?? {});
      case "content_block_delta":
        return this.#extend(event.index ?? -1, event.delta ?? {});
      case "content_block_stop":
        return this.#blocks[event.index ?? -1] === undefined
          ? null
          : { type: "block_stopped", block: event.index ?? -1 };
      case "message_delta":
        this.#stopReason = event.delta?.stop_reason ?? this.#stopReason;
        return null;
      case "message_stop":
        this.#stopped = true;
        return null;
      case "error":
        throw modelStreamError(event);
      case "ping":
      case undefined:
      default:
        return null;
    }
  }

  /** The whole message. Throws `provider_stream_broken` when it is not whole. */
  finish(): ModelMessage {
    if (!this.#stopped || this.#stopReason === null) {
      throw new PlatformError("provider_stream_broken");
    }
    // Cut off at its length limit, a call is not what the model meant, even when its arguments happen to parse.
    const cut = this.#stopReason === "max_tokens";
    const content = this.#blocks
      .filter((block) => !(cut && block.type === "tool_use"))
      .map(finishBlock)
      .filter((block) => block !== null);
    return { content, stopReason: this.#stopReason, servedModel: this.#servedModel };
  }

  #open(index: number, block: OpenBlock): ModelDelta | null {
    if (index !== this.#blocks.length) {
      throw new PlatformError("provider_stream_broken", "The model provider's stream skipped a part of the message.");
    }
    const said = block.text ?? block.thinking ?? "";
    this.#blocks.push({ ...block, said, sealed: block.signature ?? "" });
    return said === "" ? null : this.#said(index, said);
  }

  #extend(index: number, delta: WireDelta): ModelDelta | null {
    const block = this.#blocks[index];
    if (block === undefined) {
      throw new PlatformError(
        "provider_stream_broken",
        "The model provider's stream went on with a part it never began.",
      );
    }
    switch (delta.type) {
      case "text_delta":
      case "thinking_delta": {
        const said = delta.text ?? delta.thinking ?? "";
        block.said += said;
        return said === "" ? null : this.#said(index, said);
      }
      case "input_json_delta":
        block.said += delta.partial_json ?? "";
        return null;
      case "signature_delta":
        block.sealed += delta.signature ?? "";
        return null;
      case undefined:
      default:
        return null;
    }
  }

  #said(index: number, text: string): ModelDelta | null {
    const type = this.#blocks[index]?.type;
    return type === "text" || type === "thinking" ? { type, block: index, text } : null;
  }
}

function finishBlock(block: Building): ModelBlock | null {
  switch (block.type) {
    case "text":
      return { type: "text", text: wellFormed(block.said) };
    case "thinking":
      // Signed bytes are replayed as they came or not at all.
      return block.said.isWellFormed() ? { type: "thinking", thinking: block.said, signature: block.sealed } : null;
    case "redacted_thinking":
      return { type: "redacted_thinking", data: block.data ?? "" };
    case "tool_use":
      return { type: "tool_use", id: block.id ?? "", name: block.name ?? "", input: toolInput(block) };
    case undefined:
    default:
      return null;
  }
}

function toolInput(block: Building): JsonObject {
  const text = block.said.trim();
  try {
    const value: unknown = text === "" ? (block.input ?? {}) : JSON.parse(text);
    if (typeof value === "object" && value !== null && !Array.isArray(value)) {
      // Whatever JSON.parse returns is JSON.
      return wellFormedJson(value) as JsonObject;
    }
  } catch (cause) {
    throw new PlatformError("provider_stream_broken", "The arguments of a tool call are not valid JSON.", { cause });
  }
  throw new PlatformError("provider_stream_broken", "The arguments of a tool call are not an object.");
}

function parseEvent(data: string): WireEvent {
  try {
    const event: unknown = JSON.parse(data);
    return typeof event === "object" && event !== null ? event : {};
  } catch (cause) {
    throw new PlatformError("provider_stream_broken", "The model provider's stream is not valid JSON.", { cause });
  }
}
