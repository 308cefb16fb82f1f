/** Tokens as the Anthropic wire counts them: four classes that never overlap; later counts replace earlier ones. */
import { NO_USAGE, type Usage } from "@signalbox/contract";

const FIELDS: readonly (readonly [keyof Usage, string])[] = [
  ["inputTokens", "input_tokens"],
  ["outputTokens", "output_tokens"],
  ["cacheReadTokens", "cache_read_input_tokens"],
  ["cacheWriteTokens", "cache_creation_input_tokens"],
];

/** `usage` with every count that `wire` carries; a delta of a stream carries running totals, not additions. */
export function withWireUsage(usage: Usage, wire: unknown): Usage {
  if (typeof wire !== "object" || wire === null) return usage;
  const next: Record<keyof Usage, number> = { ...usage };
  for (const [field, name] of FIELDS) {
    // Read as unknown and checked before use.
    const count = (wire as Readonly<Record<string, unknown>>)[name];
    if (typeof count === "number" && Number.isSafeInteger(count) && count >= 0) next[field] = count;
  }
  return next;
}

const CHARS_PER_TOKEN = 4;

/**
 * What a call that ended early is charged: what the provider said, and for its output at least what was received. The
 * count that opens a message speaks of an answer of which nothing has come yet, and is not charged alone.
 */
export function estimatedUsage(
  usage: Usage | null,
  received: { readonly chars: number; readonly stopReason: string | null },
): Usage {
  const { chars: receivedChars, stopReason } = received;
  if (usage === null) return NO_USAGE;
  if (receivedChars === 0 && stopReason === null) return { ...usage, outputTokens: 0 };
  return { ...usage, outputTokens: Math.max(usage.outputTokens, Math.ceil(receivedChars / CHARS_PER_TOKEN)) };
}
