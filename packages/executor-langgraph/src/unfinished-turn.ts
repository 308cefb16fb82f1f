/**
 * A turn that another worker left: what of its messages can be gone on from, and what of them readers see. An answer that
 * never came to its end is cut off. A call without a result gets the one the ledger has, or is told what became of it.
 */
import { PlatformError, wellFormed } from "@signalbox/contract";
import type { FoundCall, LostCall, SaidItem } from "@signalbox/worker";
import { textOf, toolResult, toolUsesOf, type Message } from "./message.ts";

export interface UnfinishedTurn {
  /** All messages of the conversation, repaired. */
  readonly messages: readonly Message[];
  /** Where the turn begins in them. */
  readonly begin: number;
  /** The message that ends the turn, when it was complete already. */
  readonly answer: Message | null;
}

/**
 * `before` are the messages of the finished turns. Throws `transcript_corrupt` when the transcript has nothing of the turn
 * to go on from.
 */
export function beginOfTurn(messages: readonly Message[], before: readonly Message[]): number {
  const last = before.at(-1);
  // A session that was rebuilt begins with other messages than the turns before it left.
  const continues = last !== undefined && JSON.stringify(messages[before.length - 1]) === JSON.stringify(last);
  const begin = continues ? before.length : messages.findLastIndex((message) => isSpoken(message));
  const first = messages[begin];
  if (first === undefined || !isSpoken(first)) {
    throw new PlatformError("transcript_corrupt", "The transcript has nothing of the turn to go on from.");
  }
  if (messages.slice(begin + 1).some((message) => isSpoken(message))) {
    // Whether the record knows that it was taken in is not known here: with the turn run again it is answered once.
    throw new PlatformError("transcript_corrupt", "A message was handed in while the turn ran.");
  }
  return begin;
}

export async function repairedTurn(
  messages: readonly Message[],
  begin: number,
  resultsOf: (calls: readonly LostCall[]) => Promise<readonly FoundCall[]>,
): Promise<UnfinishedTurn> {
  const last = messages.at(-1);
  const isTorn = last?.role === "assistant" && last.stopReason === undefined && toolUsesOf(last.content).length === 0;
  const whole = isTorn && messages.length > begin + 1 ? messages.slice(0, -1) : messages;
  const known = new Set(
    whole.flatMap(({ content }) => content.flatMap((each) => (each.type === "tool_result" ? [each.tool_use_id] : []))),
  );
  const open = whole
    .slice(begin)
    .flatMap((message) => (message.role === "assistant" ? toolUsesOf(message.content) : []))
    .filter((use) => !known.has(use.id));
  const found = await resultsOf(open.map(({ id, name, input }) => ({ toolUseId: id, name, input })));
  const results = found.map(({ toolUseId, outcome }) => toolResult(toolUseId, outcome));
  const repaired = [...whole, ...results];
  const end = repaired.at(-1);
  const isOver = end?.role === "assistant" && toolUsesOf(end.content).length === 0;
  return { messages: repaired, begin, answer: isOver ? end : null };
}

/** What of the turn readers are to see. */
export function saidIn(turn: readonly Message[]): readonly SaidItem[] {
  return turn.flatMap((message) => saidInMessage(message));
}

function saidInMessage(message: Message): readonly SaidItem[] {
  if (message.role !== "assistant") {
    return [];
  }
  const thoughts = message.content.flatMap((block): readonly SaidItem[] =>
    block.type === "thinking" ? [{ kind: "thinking", text: wellFormed(block.thinking) }] : [],
  );
  const text = wellFormed(textOf(message.content));
  return text.trim() === "" ? thoughts : [...thoughts, { kind: "text", text }];
}

/** Whether a person wrote it: results of tools stand in messages of the user's role too. */
function isSpoken(message: Message): boolean {
  return message.role === "user" && message.content.some((block) => block.type === "text");
}
