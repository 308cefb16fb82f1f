/** What a request says, whichever wire it came over. */
import type { JsonObject } from "./json.ts";

/** The wire a request came over: Anthropic Messages, OpenAI chat completions or OpenAI responses. */
export type WireName = "anthropic" | "completions" | "responses";

/** A tool the caller offers to the model, with the JSON schema of its input. */
export interface OfferedTool {
  readonly name: string;
  readonly description: string;
  readonly inputSchema: JsonObject;
}

export interface ToolCall {
  readonly id: string;
  readonly name: string;
  readonly input: JsonObject;
}

export interface ToolResult {
  readonly callId: string;
  readonly text: string;
  readonly isError: boolean;
}

/** One entry of the conversation as the caller sent it. A user entry may carry results, text or both. */
export interface Entry {
  readonly role: "system" | "user" | "assistant";
  readonly texts: readonly string[];
  readonly calls: readonly ToolCall[];
  readonly results: readonly ToolResult[];
}

export type ToolChoice = "auto" | "none" | "any" | { readonly name: string };

/** A model call, told the same way for every wire: what a script gets to decide its answer by. */
export interface SimRequest {
  readonly wire: WireName;
  readonly model: string;
  readonly stream: boolean;
  /** Whether a stream ends with usage; only the chat completions wire makes that a choice. */
  readonly streamsUsage: boolean;
  readonly maxOutputTokens: number | null;
  readonly stopSequences: readonly string[];
  /** True when the caller allows thinking blocks. */
  readonly thinking: boolean;
  readonly toolChoice: ToolChoice;
  /** The JSON schema the answer must follow, `null` for plain text. */
  readonly outputSchema: JsonObject | null;
  readonly system: string;
  readonly tools: readonly OfferedTool[];
  readonly entries: readonly Entry[];
  /** True when the caller marked a prefix for caching. */
  readonly cached: boolean;
  readonly attachmentCount: number;
}

export function entryText(entry: Entry): string {
  return entry.texts.join("\n");
}

/** The place of the last user entry that holds text, or -1: entries of tool results alone go on with the same message. */
export function lastMessageAt(entries: readonly Entry[]): number {
  return entries.findLastIndex((entry) => entry.role === "user" && entry.texts.some((text) => text.trim() !== ""));
}
