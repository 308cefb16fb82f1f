/**
 * What a turn is told of earlier ones where its transcript does not: messages whose turn ended without becoming part of
 * it, and calls of tools that left for the world outside. An engine that forgot an effect would cause it again. Pure.
 */
import type { HistoryEntry, ToolCallState } from "@signalbox/contract";
import type { MissedTurn, PastCall, PastMessage } from "../ports/ownership-record.ts";

/** For a transcript that goes on: facts of the turn's form, about the turns it lacks. */
export function missedFacts(missed: readonly MissedTurn[]): readonly string[] {
  return missed.flatMap(({ text, outcome, reason, calls }) => [
    `An earlier message of the user is not part of this conversation's transcript; its turn ended ${outcome} (${reason}). The message: ${JSON.stringify(text)}`,
    ...calls.map((call) => `In that turn: ${told(call)}`),
  ]);
}

/** For a transcript that begins anew: the history, with the calls told where the answer to their message stands. */
export function seedOf(past: readonly PastMessage[]): readonly HistoryEntry[] {
  const seed: HistoryEntry[] = [];
  let note: string | null = null;
  const flush = (): void => {
    if (note !== null) seed.push({ role: "assistant", text: note });
    note = null;
  };
  for (const { role, text, calls } of past) {
    if (role === "assistant" && note !== null) {
      seed.push({ role, text: `${note}\n\n${text}` });
      note = null;
      continue;
    }
    flush();
    seed.push({ role, text });
    if (calls.length > 0) note = `[${calls.map((call) => told(call)).join(" ")}]`;
  }
  flush();
  return seed;
}

/** What a tool said is quoted: it is nobody's own words here. */
function told({ name, argumentsJson, state, resultSummary }: PastCall): string {
  const result = resultSummary === null || resultSummary === "" ? "" : ` Its result: ${JSON.stringify(resultSummary)}`;
  return `The tool ${name} was called with ${argumentsJson} and ${CAME_TO[state]}.${result}`;
}

const MAY_HAVE = "it is not known what came of it; it may have taken effect";

const CAME_TO: Readonly<Record<ToolCallState, string>> = {
  proposed: "was not carried out",
  awaiting_approval: "was not carried out",
  authorized: "was not carried out",
  executing: MAY_HAVE,
  unknown: MAY_HAVE,
  succeeded: "succeeded",
  failed: "failed",
  denied: "was denied",
  withdrawn: "was withdrawn",
};
