/** What later turns are told of earlier ones: the history, its calls, and turns that the transcript does not have. */
import { isTerminal } from "@signalbox/contract";
import type { MissedTurn, PastCall, PastMessage } from "@signalbox/core";
import type { MemoryDatabase } from "./database.ts";
import type { RunRow } from "./rows.ts";

const MISSED_COUNT_MAX = 8;

/** Questions and answers before this run, each question before its own answer. */
export function historyBefore(db: MemoryDatabase, run: RunRow): readonly PastMessage[] {
  return db.messages
    .where(
      (message) => message.conversationId === run.conversationId && message.position < run.position && !message.struck,
    )
    .toSorted((left, right) => left.position - right.position || (left.role === "user" ? -1 : 1))
    .map(({ role, text, runId }) => ({ role, text, calls: role === "user" ? callsOf(db, runId) : [] }));
}

/** Whether anything was said before this run that a session could be rebuilt from. */
export function hasHistory(db: MemoryDatabase, run: RunRow): boolean {
  return db.messages
    .where((each) => each.conversationId === run.conversationId && each.position < run.position && !each.struck)
    .some(({ role, runId }) => role === "assistant" || wasBegun(db.runs.must(runId)));
}

export function missedTurns(db: MemoryDatabase, run: RunRow): readonly MissedTurn[] {
  const { leaf, leafTurn } = db.conversations.must(run.conversationId);
  if (leaf === null) return [];
  return db
    .runsOf(run.conversationId)
    .filter((each) => each.position > leafTurn && each.position < run.position && wasBegun(each))
    .toSorted((left, right) => left.position - right.position)
    .flatMap((each) => {
      const message = db.messages.must(each.messageId);
      if (message.struck || !isTerminal(each.state) || each.reason === null) return [];
      return [{ text: message.text, outcome: each.state, reason: each.reason, calls: callsOf(db, each.id) }];
    })
    .slice(-MISSED_COUNT_MAX);
}

function wasBegun(run: RunRow): boolean {
  return run.startedAtMs !== null || run.takenIn;
}

function callsOf(db: MemoryDatabase, runId: RunRow["id"]): readonly PastCall[] {
  const answered = db.runs.must(runId).state === "completed";
  return db.toolCalls
    .where((call) => call.runId === runId && call.startedAtMs !== null)
    .filter(({ effect }) => !answered || effect === "write" || effect === "irreversible")
    .map(({ name, argumentsJson, state, resultSummary }) => ({ name, argumentsJson, state, resultSummary }));
}
