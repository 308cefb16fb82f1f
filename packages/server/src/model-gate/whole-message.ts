/** A message that came in one piece, under the same rule for its tool calls as a streamed one. */
import { NO_USAGE, PlatformError, type Usage } from "@signalbox/contract";
import { releasableCalls, withheldNote, withheldStopReason, type ToolBlock, type ToolUse } from "./tool-blocks.ts";
import { withWireUsage } from "./wire-usage.ts";

export interface WholeMessage {
  readonly usage: Usage;
  readonly servedModel: string;
  readonly stopReason: string;
  /** The calls to propose, or `null` when the message has calls that no engine may get. */
  readonly calls: readonly ToolUse[] | null;
  /** What the engine may have once the calls are recorded. */
  readonly body: string;
}

interface WireMessage {
  readonly model?: unknown;
  readonly usage?: unknown;
  readonly stop_reason?: unknown;
  readonly content?: unknown;
}

interface WireBlock {
  readonly type?: unknown;
  readonly id?: unknown;
  readonly name?: unknown;
  readonly input?: unknown;
}

/** Throws `provider_stream_broken` when the body is no message of this wire. */
export function readWholeMessage(body: string): WholeMessage {
  const message = parse(body);
  const { content, stop_reason: stopReason } = message;
  if (!Array.isArray(content) || typeof stopReason !== "string") throw broken();
  // Blocks are objects on this wire; each member is checked where it is used.
  const blocks = content as readonly WireBlock[];
  const tools = blocks.filter(isToolUse).map(toolBlock);
  const calls = releasableCalls(tools, stopReason);
  return {
    usage: withWireUsage(NO_USAGE, message.usage),
    servedModel: typeof message.model === "string" ? message.model : "",
    stopReason,
    calls,
    body:
      calls === null
        ? JSON.stringify({
            ...message,
            content: blocks.map((block) =>
              isToolUse(block) ? { type: "text", text: withheldNote(toolBlock(block)) } : block,
            ),
            stop_reason: withheldStopReason(stopReason),
          })
        : body,
  };
}

function isToolUse(block: WireBlock | null): block is WireBlock {
  return block?.type === "tool_use";
}

function toolBlock(block: WireBlock): ToolBlock {
  return { id: block.id, name: block.name, input: block.input, pieces: [], closed: true };
}

function parse(body: string): WireMessage {
  try {
    const value: unknown = JSON.parse(body);
    if (typeof value === "object" && value !== null) return value;
  } catch {
    // Falls through: not JSON is as unusable as a JSON text that is no object.
  }
  throw broken();
}

function broken(): PlatformError {
  return new PlatformError("provider_stream_broken", "The model provider's answer is not a message.");
}
