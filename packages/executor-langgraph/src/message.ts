/** A message in the state of the graph: plain JSON in the shape of the Anthropic wire, plus who answered. */
import type { JsonObject, ModelBlock, ToolContent } from "@signalbox/worker";

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

export const NO_OUTPUT = "(no output)";

/** What a tool said, as the model reads it. Never empty: a provider refuses an empty block. */
export function toolResult(
  toolUseId: string,
  said: { readonly content: readonly ToolContent[]; readonly isError: boolean },
): Message {
  const content = said.content.map(readable).filter((block) => block !== null);
  return {
    role: "user",
    content: [
      {
        type: "tool_result",
        tool_use_id: toolUseId,
        content: content.length === 0 ? [{ type: "text", text: NO_OUTPUT }] : content,
        is_error: said.isError,
      },
    ],
  };
}

const IMAGE_TYPES: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/gif", "image/webp"]);

function readable(block: ToolContent): JsonObject | null {
  switch (block.type) {
    case "text":
      return textBlock(block.text ?? "");
    case "image": {
      const { data = "", mimeType = "" } = block;
      return IMAGE_TYPES.has(mimeType) && data !== ""
        ? { type: "image", source: { type: "base64", media_type: mimeType, data } }
        : textBlock(`[an image of type ${mimeType}, which the model cannot read]`);
    }
    case "resource":
      return textBlock(block.resource?.text ?? `[resource ${block.resource?.uri ?? ""}]`);
    case "resource_link":
      return textBlock(`[resource ${block.uri ?? ""}]`);
    default:
      return textBlock(`[content of type ${block.type}, which the model cannot read]`);
  }
}

function textBlock(text: string): JsonObject | null {
  return text.trim() === "" ? null : { type: "text", text };
}
