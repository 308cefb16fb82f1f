/** The Messages wire: whole answers, the event stream and errors. */
import type { Block, WrittenBlock } from "../delivery.ts";
import type { JsonObject } from "../json.ts";
import { parseArguments } from "../json.ts";
import type { StopReason, Usage } from "../script.ts";
import type { ErrorBody } from "../wire-error.ts";
import { parseMessages } from "./anthropic-request.ts";
import { type Encoder, type Envelope, jsonText, sseEvent, type Wire } from "./wire.ts";

export const anthropicWire: Wire = {
  name: "anthropic",
  requestIdHeader: "request-id",
  parse: parseMessages,
  encoder: encode,
  whole,
  errorBody: (error, { requestId }) => ({ type: "error", error: { ...error }, request_id: requestId }),
};

function whole(blocks: readonly WrittenBlock[], envelope: Envelope): JsonObject {
  const { delivery } = envelope;
  return {
    ...messageHead(envelope),
    content: blocks.map(contentBlock),
    stop_reason: stopReason(delivery.stop),
    stop_sequence: delivery.stopSequence,
    usage: usageFields(delivery.usage),
  };
}

function contentBlock({ block, text }: WrittenBlock): JsonObject {
  switch (block.kind) {
    case "text":
      return { type: "text", text: text.toWellFormed() };
    case "thinking":
      return { type: "thinking", thinking: text.toWellFormed(), signature: block.signature };
    case "tool":
      return { type: "tool_use", id: block.id, name: block.name, input: parseArguments(text) };
  }
}

function encode(envelope: Envelope): Encoder {
  const { delivery } = envelope;
  let at = -1;
  let open: Block = { kind: "text" };
  let deltaHead = "";
  const ping = sseEvent("ping", `{"type":"ping"}`);
  return {
    ping,
    begin() {
      const usage = { ...usageFields(delivery.usage), output_tokens: 1 };
      const message = { ...messageHead(envelope), content: [], stop_reason: null, stop_sequence: null, usage };
      return event("message_start", { message }) + ping;
    },
    open(block) {
      at += 1;
      open = block;
      deltaHead = `event: content_block_delta\ndata: {"type":"content_block_delta","index":${at},"delta":${DELTA_HEADS[block.kind]}`;
      return event("content_block_start", { index: at, content_block: emptyBlock(block) });
    },
    token: (text) => `${deltaHead}${jsonText(text)}}}\n\n`,
    close() {
      const signed =
        open.kind === "thinking"
          ? event("content_block_delta", { index: at, delta: { type: "signature_delta", signature: open.signature } })
          : "";
      return signed + event("content_block_stop", { index: at });
    },
    end() {
      const delta = { stop_reason: stopReason(delivery.stop), stop_sequence: delivery.stopSequence };
      return event("message_delta", { delta, usage: usageFields(delivery.usage) }) + event("message_stop", {});
    },
    error: (error: ErrorBody) => event("error", { error: { ...error } }),
  };
}

/** Everything of a delta up to the text, so that a token costs one concatenation. */
const DELTA_HEADS: Readonly<Record<Block["kind"], string>> = {
  text: `{"type":"text_delta","text":`,
  thinking: `{"type":"thinking_delta","thinking":`,
  tool: `{"type":"input_json_delta","partial_json":`,
};

function emptyBlock(block: Block): JsonObject {
  switch (block.kind) {
    case "text":
      return { type: "text", text: "" };
    case "thinking":
      return { type: "thinking", thinking: "", signature: "" };
    case "tool":
      return { type: "tool_use", id: block.id, name: block.name, input: {} };
  }
}

function event(type: string, fields: JsonObject): string {
  return sseEvent(type, JSON.stringify({ type, ...fields }));
}

function messageHead({ ids, delivery }: Envelope): JsonObject {
  return { id: ids.id("msg_", "message"), type: "message", role: "assistant", model: delivery.model };
}

function usageFields(usage: Usage): JsonObject {
  return {
    input_tokens: usage.inputTokens,
    cache_creation_input_tokens: usage.cacheCreationTokens,
    cache_read_input_tokens: usage.cacheReadTokens,
    output_tokens: usage.outputTokens,
  };
}

function stopReason(stop: StopReason): string {
  return stop === "end" ? "end_turn" : stop;
}
