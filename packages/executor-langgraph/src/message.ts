/** A message in the state of the graph: plain JSON in the shape of the Anthropic wire, plus who answered. */
import { modelBlocks, type JsonObject, type ModelBlock, type ToolContent } from "@signalbox/worker";

export interface ToolResultBlock {
  readonly type: "tool_result";
  readonly tool_use_id: string;
  readonly content: readonly JsonObject[];
  readonly is_error: boolean;
}

export type Block = ModelBlock | ToolResultBlock;

export interface Message {
  readonly role: "user" | "assistant";
  readonly content: readonly Block[];
  /** The model asked, on answers: thinking is only replayed to the model that thought it. */
  readonly model?: string;
  /** On answers that came to their end; what was cut off by an interrupt has none. */
  readonly stopReason?: string;
  readonly servedModel?: string;
}

export function userMessage(parts: readonly string[]): Message {
  return { role: "user", content: parts.map((text) => ({ type: "text", text })) };
}

/** Text of a message as people see it. */
export function textOf(content: readonly Block[]): string {
  return content.map((block) => (block.type === "text" ? block.text : "")).join("");
}

export type ToolUse = Extract<ModelBlock, { readonly type: "tool_use" }>;

export function toolUsesOf(content: readonly Block[]): readonly ToolUse[] {
  return content.filter((block) => block.type === "tool_use");
}

/** What a tool said, as the model reads it. Never empty: a provider refuses an empty block. */
export function toolResult(
  toolUseId: string,
  said: { readonly content: readonly ToolContent[]; readonly isError: boolean },
): Message {
  const content = modelBlocks(said.content);
  return {
    role: "user",
    content: [
      {
        type: "tool_result",
        tool_use_id: toolUseId,
        content,
        is_error: said.isError,
      },
    ],
  };
}
