/**
 * What a verdict demands of the call it allows: less time, a shorter result, members of it that nobody gets to see. A demand
 * that cannot be read, or cannot be met, is never passed over: then the call is not made, or its result is withheld.
 */
import { policyObligationSchema } from "@signalbox/contract";
import { redact } from "@signalbox/core";
import { isObject, type Json } from "./mcp-protocol.ts";

export interface CallConditions {
  readonly timeoutMs: number;
  readonly resultBytes: number;
  /** Pointers into what the tool gives back. */
  readonly redacted: readonly string[];
}

export const UNCONDITIONAL: CallConditions = { timeoutMs: Infinity, resultBytes: Infinity, redacted: [] };

const WITHHELD =
  "[The policy hides parts of this result, and it has no structure they could be found in: it is withheld.]";

/** `null` for a demand that is not known here: the call must not be made. */
export function readConditions(given: readonly unknown[] | null): CallConditions | null {
  let { timeoutMs, resultBytes } = UNCONDITIONAL;
  const redacted: string[] = [];
  for (const each of given ?? []) {
    const { success, data } = policyObligationSchema.safeParse(each);
    if (!success) return null;
    if (data.kind === "redact") redacted.push(...data.at);
    if (data.kind === "limit") {
      timeoutMs = Math.min(timeoutMs, data.timeoutMs ?? Infinity);
      resultBytes = Math.min(resultBytes, data.resultBytes ?? Infinity);
    }
  }
  return { timeoutMs, resultBytes, redacted };
}

/** The result of a tool without what is to be hidden: structured content, or text that is JSON; anything else is withheld. */
export function withoutRedacted(result: Json, pointers: readonly string[]): Json {
  if (pointers.length === 0) return result;
  const structured = result.structuredContent ?? jsonIn(result.content);
  const text =
    isObject(structured) || Array.isArray(structured) ? JSON.stringify(redact(structured, pointers)) : WITHHELD;
  const { structuredContent: _seen, ...rest } = result;
  return { ...rest, content: [{ type: "text", text }] };
}

/** What the only block of a result says, when that is JSON. */
function jsonIn(content: unknown): unknown {
  const [block, ...more] = Array.isArray(content) ? content.filter(isObject) : [];
  if (block?.type !== "text" || typeof block.text !== "string" || more.length > 0) return null;
  try {
    return JSON.parse(block.text);
  } catch {
    return null;
  }
}
