/**
 * The tool calls of one message. They are released together or not at all: only when the provider ended the message
 * with `tool_use` and every one of them is complete, a JSON object, and has an id of its own.
 */
import { wireToolName } from "@signalbox/core";
import { canonicalArguments } from "../gates/canonical-arguments.ts";

export interface ToolUse {
  readonly id: string;
  readonly name: string;
  /** Canonical JSON. */
  readonly argumentsJson: string;
}

export interface ToolBlock {
  readonly id: unknown;
  readonly name: unknown;
  /** `input` of the block's start or of a whole message; a stream leaves it empty and sends pieces. */
  readonly input: unknown;
  readonly pieces: readonly string[];
  readonly closed: boolean;
}

const ID_CHARS_MAX = 200;

/** The calls of a message that may be released, or `null`. */
export function releasableCalls(blocks: readonly ToolBlock[], stopReason: string | null): readonly ToolUse[] | null {
  if (stopReason !== "tool_use") return blocks.length === 0 ? [] : null;
  const calls = blocks.map(readCall);
  const ids = new Set(calls.map((call) => call?.id));
  if (ids.size < calls.length) return null;
  const complete = calls.filter((call) => call !== null);
  return complete.length === calls.length ? complete : null;
}

/** Stands where a call stood that was withheld; the model reads it in its history and knows what happened. */
export function withheldNote(block: ToolBlock): string {
  const name = typeof block.name === "string" ? wireToolName(block.name) : "a tool";
  return `[The call of ${name} was cut off at the output limit and was not run. Make smaller calls, one at a time.]`;
}

/** An engine must see a message with withheld calls as cut off, whatever the provider called it. */
export function withheldStopReason(stopReason: string | null): string {
  return stopReason === "refusal" ? stopReason : "max_tokens";
}

function readCall(block: ToolBlock): ToolUse | null {
  const { id, name } = block;
  if (!block.closed || typeof id !== "string" || typeof name !== "string") return null;
  if (id === "" || id.length > ID_CHARS_MAX || !id.isWellFormed() || id.includes("\u0000") || name === "") return null;
  const argumentsJson = canonicalArguments(readInput(block));
  return argumentsJson === null ? null : { id, name: wireToolName(name), argumentsJson };
}

function readInput(block: ToolBlock): unknown {
  const text = block.pieces.join("");
  if (text === "") return block.input ?? {};
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
