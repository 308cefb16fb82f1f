/** The objects of the responses wire: the response itself and its output items. */
import type { Block, WrittenBlock } from "../delivery.ts";
import type { IdSource } from "../ids.ts";
import type { JsonObject } from "../json.ts";
import type { Usage } from "../script.ts";
import type { Envelope } from "./wire.ts";

export type ItemStatus = "in_progress" | "completed" | "incomplete";

export function itemId(block: Block, { ids, place }: { readonly ids: IdSource; readonly place: number }): string {
  const prefixes: Readonly<Record<Block["kind"], string>> = { text: "msg_", thinking: "rs_", tool: "fc_" };
  return ids.id(prefixes[block.kind], `item ${place}`);
}

export function textPart(text: string): JsonObject {
  return { type: "output_text", text, annotations: [], logprobs: [] };
}

/** `text` is null for an item that has only been announced. */
export function outputItem(
  block: Block,
  id: string,
  { text, status }: { text: string | null; status: ItemStatus },
): JsonObject {
  switch (block.kind) {
    case "text":
      return { id, type: "message", role: "assistant", status, content: text === null ? [] : [textPart(text)] };
    case "thinking":
      return { id, type: "reasoning", summary: text === null ? [] : [{ type: "summary_text", text }] };
    case "tool":
      return { id, type: "function_call", call_id: block.id, name: block.name, arguments: text ?? "", status };
  }
}

/** How the response ended, by the stop reason of the answer. */
export function responseEnd(stop: string): {
  readonly status: "completed" | "incomplete";
  readonly reason: string | null;
} {
  if (stop === "max_tokens") {
    return { status: "incomplete", reason: "max_output_tokens" };
  }
  return stop === "refusal"
    ? { status: "incomplete", reason: "content_filter" }
    : { status: "completed", reason: null };
}

export function finishedItems(blocks: readonly WrittenBlock[], envelope: Envelope): readonly JsonObject[] {
  const { status } = responseEnd(envelope.delivery.stop);
  return blocks.map(({ block, text }, place) => {
    const isLast = place === blocks.length - 1;
    const id = itemId(block, { ids: envelope.ids, place });
    return outputItem(block, id, { text: text.toWellFormed(), status: isLast ? status : "completed" });
  });
}

/** `output` is null while the response is in progress. */
export function responseObject(envelope: Envelope, output: readonly JsonObject[] | null): JsonObject {
  const { request, delivery, ids, createdAtMs } = envelope;
  const end = responseEnd(delivery.stop);
  return {
    id: ids.id("resp_", "response"),
    object: "response",
    created_at: Math.floor(createdAtMs / 1_000),
    status: output === null ? "in_progress" : end.status,
    error: null,
    incomplete_details: output === null || end.reason === null ? null : { reason: end.reason },
    instructions: request.system === "" ? null : request.system,
    max_output_tokens: request.maxOutputTokens,
    metadata: {},
    model: delivery.model,
    output: output ?? [],
    parallel_tool_calls: true,
    previous_response_id: null,
    reasoning: { effort: null, summary: null },
    store: false,
    temperature: 1,
    text: { format: { type: "text" } },
    tool_choice:
      typeof request.toolChoice === "string"
        ? choiceWord(request.toolChoice)
        : { type: "function", ...request.toolChoice },
    tools: request.tools.map((tool) => ({
      type: "function",
      name: tool.name,
      description: tool.description,
      parameters: tool.inputSchema,
      strict: false,
    })),
    top_p: 1,
    truncation: "disabled",
    usage: output === null ? null : usageFields(delivery.usage),
  };
}

function choiceWord(choice: "auto" | "none" | "any"): string {
  return choice === "any" ? "required" : choice;
}

function usageFields(usage: Usage): JsonObject {
  const input = usage.inputTokens + usage.cacheReadTokens + usage.cacheCreationTokens;
  return {
    input_tokens: input,
    input_tokens_details: { cached_tokens: usage.cacheReadTokens },
    output_tokens: usage.outputTokens,
    output_tokens_details: { reasoning_tokens: usage.thinkingTokens },
    total_tokens: input + usage.outputTokens,
  };
}
