/** The chat completions wire: whole answers, chunks and errors. */
import type { Block, WrittenBlock } from "../delivery.ts";
import type { JsonObject } from "../json.ts";
import type { StopReason, Usage } from "../script.ts";
import { parseCompletions } from "./completions-request.ts";
import { statusOfType } from "../wire-error.ts";
import { openAiErrorBody } from "./openai-errors.ts";
import { type Encoder, type Envelope, jsonText, type Wire } from "./wire.ts";

export const completionsWire: Wire = {
  name: "completions",
  requestIdHeader: "x-request-id",
  parse: parseCompletions,
  encoder: encode,
  whole,
  errorBody: openAiErrorBody,
};

function whole(blocks: readonly WrittenBlock[], envelope: Envelope): JsonObject {
  const { delivery } = envelope;
  const texts = blocks.filter(({ block }) => block.kind === "text").map(({ text }) => text.toWellFormed());
  const calls = blocks.flatMap(({ block, text }) =>
    block.kind === "tool" ? [{ id: block.id, type: "function", function: { name: block.name, arguments: text } }] : [],
  );
  const message = {
    role: "assistant",
    content: texts.length === 0 ? null : texts.join(""),
    refusal: null,
    ...(calls.length === 0 ? {} : { tool_calls: calls }),
  };
  return {
    ...head(envelope, "chat.completion"),
    choices: [{ index: 0, message, logprobs: null, finish_reason: finishReason(delivery.stop) }],
    usage: usageFields(delivery.usage),
  };
}

function encode(envelope: Envelope): Encoder {
  const { delivery, request } = envelope;
  const headText = JSON.stringify(head(envelope, "chat.completion.chunk"));
  /** Everything of a chunk up to its delta, so that a token costs one concatenation. */
  const opening = `data: ${headText.slice(0, -1)},"choices":[{"index":0,"delta":`;
  const closing = `,"logprobs":null,"finish_reason":null}]}\n\n`;
  const chunk = (delta: JsonObject) => opening + JSON.stringify(delta) + closing;
  let calls = -1;
  let open: Block["kind"] = "text";
  return {
    ping: "",
    begin: () => chunk({ role: "assistant", content: "", refusal: null }),
    open(block) {
      open = block.kind;
      if (block.kind !== "tool") {
        return "";
      }
      calls += 1;
      const call = { index: calls, id: block.id, type: "function", function: { name: block.name, arguments: "" } };
      return chunk({ tool_calls: [call] });
    },
    token(text) {
      if (open === "thinking") {
        return "";
      }
      const json = jsonText(text);
      const delta =
        open === "text"
          ? `{"content":${json}}`
          : `{"tool_calls":[{"index":${calls},"function":{"arguments":${json}}}]}`;
      return opening + delta + closing;
    },
    close: () => "",
    end() {
      const last = { index: 0, delta: {}, logprobs: null, finish_reason: finishReason(delivery.stop) };
      const base = head(envelope, "chat.completion.chunk");
      const usage = request.streamsUsage ? event({ ...base, choices: [], usage: usageFields(delivery.usage) }) : "";
      return `${event({ ...base, choices: [last] })}${usage}data: [DONE]\n\n`;
    },
    error: (error) => event(openAiErrorBody(error, { status: statusOfType(error.type) })),
  };
}

function event(fields: JsonObject): string {
  return `data: ${JSON.stringify(fields)}\n\n`;
}

function head({ ids, createdAtMs, delivery }: Envelope, object: string): JsonObject {
  return {
    id: ids.id("chatcmpl-", "message"),
    object,
    created: Math.floor(createdAtMs / 1_000),
    model: delivery.model,
    service_tier: "default",
    system_fingerprint: null,
  };
}

function usageFields(usage: Usage): JsonObject {
  const input = usage.inputTokens + usage.cacheReadTokens + usage.cacheCreationTokens;
  return {
    prompt_tokens: input,
    completion_tokens: usage.outputTokens,
    total_tokens: input + usage.outputTokens,
    prompt_tokens_details: { cached_tokens: usage.cacheReadTokens, audio_tokens: 0 },
    completion_tokens_details: { reasoning_tokens: usage.thinkingTokens, audio_tokens: 0 },
  };
}

const FINISH_REASONS: ReadonlyMap<string, string> = new Map([
  ["end", "stop"],
  ["stop_sequence", "stop"],
  ["tool_use", "tool_calls"],
  ["max_tokens", "length"],
  ["refusal", "content_filter"],
]);

function finishReason(stop: StopReason): string {
  return FINISH_REASONS.get(stop) ?? stop;
}
