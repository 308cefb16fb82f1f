/** What a tool said, as blocks a model can read. */
import type { JsonObject } from "./gate-clients/model-message.ts";
import type { ToolContent } from "./gate-clients/tool-client.ts";

const NO_OUTPUT = "(no output)";

/** Never empty: a provider refuses an empty block. */
export function modelBlocks(content: readonly ToolContent[]): readonly JsonObject[] {
  const blocks = content.map(readable).filter((block) => block !== null);
  return blocks.length === 0 ? [{ type: "text", text: NO_OUTPUT }] : blocks;
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
