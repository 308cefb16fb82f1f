/** The one place where a run of the memory record changes its state. */
import {
  revisionOf,
  REVISIONS_PER_GENERATION,
  type EndReason,
  type ErrorObject,
  type MessageId,
  type TerminalState,
} from "@signalbox/contract";
import { isActive, nextGeneration, nextInLine, transition, type RunEvent } from "@signalbox/core";
import { writeAudit } from "./audit.ts";
import { tellStillOpen } from "./call-events.ts";
import type { MemoryDatabase } from "./database.ts";
import { placeOf, writeEvent, writeRunEvent } from "./event-log.ts";
import { withdrawHolds } from "./holds.ts";
import type { RunRow } from "./rows.ts";

export function moveRun(
  db: MemoryDatabase,
  run: RunRow,
  move: { readonly by: RunEvent; readonly set?: Partial<RunRow> },
): RunRow {
  return db.runs.update(run.id, { ...move.set, state: transition(run.state, move.by) });
}

/** A queued run may begin: it is admitted and can be claimed. */
export function admitRun(db: MemoryDatabase, run: RunRow): RunRow {
  const { generation } = db.ownerships.must(run.conversationId);
  const admitted = moveRun(db, run, { by: "admit", set: { steerInto: null } });
  db.ownerships.update(run.conversationId, { readyAtMs: db.nowMs(), runtime: run.runtime, cancelAtMs: null });
  writeRunEvent(db, admitted, { type: "run.admitted", generation, data: { messageId: run.messageId } });
  writeAudit(db, "run_admitted", { run: admitted, generation });
  return admitted;
}

export interface Ending {
  readonly outcome: TerminalState;
  readonly reason: EndReason;
  readonly error: ErrorObject | null;
  readonly answerId: MessageId | null;
}

const EVENT_OF: Readonly<Record<TerminalState, RunEvent>> = {
  completed: "complete",
  cancelled: "cancel",
  failed: "fail",
  rolled_back: "roll_back",
};

/** Ends a run, frees its conversation and admits the next message, all in the caller's transaction. */
export function endRun(db: MemoryDatabase, run: RunRow, ending: Ending): RunRow | null {
  const ownership = db.ownerships.must(run.conversationId);
  const { outcome, reason, error, answerId } = ending;
  const merged = takenInBy(db, run);
  const generation = run.generation ?? ownership.generation;
  const ended = isForced(db, run)
    ? db.runs.update(run.id, { state: outcome, reason, error })
    : moveRun(db, run, {
        by: EVENT_OF[outcome],
        set: { reason, error, generation: null, owner: null, finishedAtMs: db.nowMs() },
      });
  withdrawHolds(db, ended);
  tellStillOpen(db, ended);
  if (db.sabotage !== "silent_finish") {
    writeEvent(db, placeOf(ended, generation), {
      type: "run.finished",
      itemId: run.id,
      revision: revisionOf(generation, REVISIONS_PER_GENERATION - 1),
      data: {
        outcome,
        reason,
        error,
        messageId: answerId,
        ...(run.cancelStrikes ? { rollback: rollbackOf(outcome) } : {}),
      },
    });
  }
  writeAudit(db, "message_completed", { run: ended, generation, facts: { outcome, reason, rung: ended.rung } });
  if (outcome === "rolled_back") strike(db, [ended, ...merged]);
  if (db.sabotage !== "merged_forgotten") {
    for (const each of merged) endMerged(db, each, { generation, answerId });
  }
  if (run.state !== "queued") {
    db.ownerships.update(run.conversationId, {
      generation: nextGeneration(ownership.generation),
      owner: null,
      cancelAtMs: null,
      readyAtMs: null,
      runtime: null,
    });
    unbindSlots(db, run.conversationId);
    withdrawProposals(db, run);
  }
  return admitNext(db, run.conversationId);
}

function rollbackOf(outcome: TerminalState): "struck" | "interrupted" {
  return outcome === "rolled_back" ? "struck" : "interrupted";
}

/** The runs whose messages this run's engine took in. */
export function takenInBy(db: MemoryDatabase, run: RunRow): readonly RunRow[] {
  return db
    .runsOf(run.conversationId)
    .filter((each) => each.state === "queued" && each.steerInto === run.id && each.takenIn);
}

function strike(db: MemoryDatabase, runs: readonly RunRow[]): void {
  const ids = new Set(runs.map(({ id }) => id));
  for (const message of db.messages.where(({ runId }) => ids.has(runId))) {
    db.messages.update(message.id, { struck: true });
  }
}

/** Its message was answered with the run that took it in. */
function endMerged(
  db: MemoryDatabase,
  run: RunRow,
  by: { readonly generation: number; readonly answerId: MessageId | null },
): void {
  const ending = { outcome: "completed", reason: "merged" } as const;
  const ended = moveRun(db, run, { by: "merge", set: { reason: ending.reason, finishedAtMs: db.nowMs() } });
  writeEvent(db, placeOf(ended, by.generation), {
    type: "run.finished",
    itemId: run.id,
    revision: revisionOf(by.generation, REVISIONS_PER_GENERATION - 1),
    data: { ...ending, error: null, messageId: by.answerId },
  });
  writeAudit(db, "message_completed", { run: ended, generation: by.generation, facts: ending });
}

/** Under sabotage a run that has ended is ended once more. */
function isForced(db: MemoryDatabase, run: RunRow): boolean {
  return db.sabotage === "finish_twice" && run.finishedAtMs !== null;
}

function admitNext(db: MemoryDatabase, conversationId: string): RunRow | null {
  const runs = db.runsOf(conversationId);
  const waiting = runs.filter((run) => run.state === "queued" && !run.takenIn);
  const overtakes =
    db.sabotage === "last_in_first_out" ||
    (db.sabotage === "interrupt_overtakes" && runs.some((run) => run.cancelCause === "superseded"));
  const next =
    overtakes && nextInLine(waiting) !== null && !runs.some((run) => isActive(run.state))
      ? waiting.reduce<RunRow | null>((last, run) => (last === null || run.position > last.position ? run : last), null)
      : nextInLine(runs.filter((run) => !run.takenIn));
  if (next === null || db.sabotage === "stranded_queue") return null;
  const admitted = admitRun(db, next);
  tellPlaces(db, conversationId);
  return admitted;
}

/** Tells those that wait where they stand now. */
export function tellPlaces(db: MemoryDatabase, conversationId: string): void {
  const { generation } = db.ownerships.must(conversationId);
  db.runsOf(conversationId)
    .filter((run) => run.state === "queued" && !run.takenIn)
    .forEach((run, index) => {
      const position = index + 1;
      writeEvent(db, placeOf(run, generation), {
        type: "queue.moved",
        itemId: run.messageId,
        // A place only falls, so a later one is a newer revision.
        revision: revisionOf(generation, REVISIONS_PER_GENERATION - 1 - position),
        data: { messageId: run.messageId, position },
      });
    });
}

/** A slot says nothing for a run that it does not serve any more. */
export function unbindSlots(db: MemoryDatabase, conversationId: string): void {
  for (const slot of db.slots.where((each) => each.conversationId === conversationId && each.runId !== null)) {
    db.slots.update(slot.tokenHash, { runId: null, generation: null });
  }
}

export function withdrawProposals(db: MemoryDatabase, run: RunRow): void {
  const open = db.toolCalls.where(
    (call) =>
      call.runId === run.id &&
      (call.state === "proposed" || call.state === "awaiting_approval" || call.state === "authorized"),
  );
  for (const call of open) db.toolCalls.update(call.id, { state: "withdrawn" });
}
