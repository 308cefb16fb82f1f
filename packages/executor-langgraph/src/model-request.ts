/**
 * The body of a model call. The head (model, system text, tools in the order of the snapshot) is the same bytes on
 * every call of a session, so that the provider's cache holds. The messages are put in the form a provider accepts
 * whatever happened before: every call followed at once by its result, no empty text, roles in turn. What is stored is
 * never rewritten for that.
 */
import type { Snapshot } from "@signalbox/contract";
import type { JsonObject } from "@signalbox/worker";
import { type Block, type Message, type ToolResultBlock, toolUsesOf } from "./message.ts";

/** For a call whose run ended before its result was known. */
const OUTCOME_UNKNOWN = "The outcome of this call is not known: the run was stopped while it was open.";
const BEGINNING = "(The conversation began before this point.)";

export type RequestHead = string;

export function requestHead(snapshot: Snapshot): RequestHead {
  const head = {
    model: snapshot.model,
    max_tokens: snapshot.maxOutputTokens,
    stream: true,
    ...(snapshot.instructions.trim() === ""
      ? {}
      : { system: [{ type: "text", text: snapshot.instructions, cache_control: { type: "ephemeral" } }] }),
    ...(snapshot.tools.length === 0
      ? {}
      : {
          tools: snapshot.tools.map((tool) => ({
            name: tool.name,
            description: tool.description,
            input_schema: tool.inputSchema,
          })),
        }),
  };
  return JSON.stringify(head).slice(0, -1);
}

export function requestBody(head: RequestHead, messages: readonly Message[], model: string): string {
  return `${head},"messages":${JSON.stringify(wireMessages(messages, model))}}`;
}

interface WireMessage {
  readonly role: Message["role"];
  readonly content: readonly WireBlock[];
}

type WireBlock = Block | JsonObject;

/** The messages as they may be sent to `model`. */
export function wireMessages(messages: readonly Message[], model: string): readonly WireMessage[] {
  const results = new Map<string, ToolResultBlock>();
  for (const block of messages.flatMap((message) => message.content)) {
    if (block.type === "tool_result") {
      results.set(block.tool_use_id, block);
    }
  }
  const wire: { role: Message["role"]; content: WireBlock[] }[] = [];
  const add = (role: Message["role"], content: readonly WireBlock[]): void => {
    const last = wire.at(-1);
    if (content.length === 0) {
      return;
    }
    if (last?.role === role) {
      last.content.push(...content);
    } else {
      wire.push({ role, content: [...content] });
    }
  };
  for (const message of messages) {
    const content = message.content.filter((block) => isSendable(block, message.model === model));
    add(message.role, content);
    if (message.role === "assistant") {
      add(
        "user",
        toolUsesOf(content).map((use) => results.get(use.id) ?? unknownOutcome(use.id)),
      );
    }
  }
  if (wire[0]?.role === "assistant") {
    wire.unshift({ role: "user", content: [{ type: "text", text: BEGINNING }] });
  }
  return withCacheMark(wire);
}

/** Results are placed where their call is, not where they were stored. */
function isSendable(block: Block, sameModel: boolean): boolean {
  switch (block.type) {
    case "text":
      return block.text.trim() !== "";
    case "tool_use":
      return true;
    case "thinking":
      return sameModel && block.signature !== "";
    case "redacted_thinking":
      return sameModel;
    case "tool_result":
      return false;
  }
}

function unknownOutcome(toolUseId: string): ToolResultBlock {
  return {
    type: "tool_result",
    tool_use_id: toolUseId,
    content: [{ type: "text", text: OUTCOME_UNKNOWN }],
    is_error: true,
  };
}

/** Lets the provider cache the conversation up to here: the next call begins with the same messages. */
function withCacheMark(wire: readonly WireMessage[]): readonly WireMessage[] {
  const last = wire.at(-1);
  const block = last?.content.at(-1);
  if (last === undefined || block === undefined || last.role !== "user") {
    return wire;
  }
  const marked = { ...block, cache_control: { type: "ephemeral" } };
  return [...wire.slice(0, -1), { ...last, content: [...last.content.slice(0, -1), marked] }];
}
