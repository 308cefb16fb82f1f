/** Counts what a request makes a model read. */
import { entryText, type Entry, type SimRequest } from "./conversation.ts";
import type { Usage } from "./script.ts";
import { ATTACHMENT_TOKENS, countTokens } from "./tokens.ts";

/** Role, separators and the like, for each entry. */
const ENTRY_TOKENS = 3;

export function countInput(request: SimRequest): number {
  return prefixTokens(request) + entriesTokens(request.entries) + request.attachmentCount * ATTACHMENT_TOKENS;
}

/**
 * Where a cache was asked for, everything before the newest message counts as cached: written by the first request of
 * a conversation, read by every later one. Without state, so that the same request always costs the same.
 */
export function inputUsage(request: SimRequest): Omit<Usage, "outputTokens" | "thinkingTokens"> {
  const whole = countInput(request);
  if (!request.cached) {
    return { inputTokens: whole, cacheReadTokens: 0, cacheCreationTokens: 0 };
  }
  const cached = prefixTokens(request) + entriesTokens(request.entries.slice(0, -1));
  const again = request.entries.some((entry) => entry.role === "assistant");
  return {
    inputTokens: whole - cached,
    cacheReadTokens: again ? cached : 0,
    cacheCreationTokens: again ? 0 : cached,
  };
}

function prefixTokens(request: SimRequest): number {
  let count = countTokens(request.system);
  for (const tool of request.tools) {
    count += countTokens(tool.name) + countTokens(tool.description) + countTokens(JSON.stringify(tool.inputSchema));
  }
  return count;
}

function entriesTokens(entries: readonly Entry[]): number {
  let count = 0;
  for (const entry of entries) {
    count += ENTRY_TOKENS + countTokens(entryText(entry));
    for (const call of entry.calls) {
      count += countTokens(call.name) + countTokens(JSON.stringify(call.input));
    }
    for (const result of entry.results) {
      count += countTokens(result.text);
    }
  }
  return count;
}
