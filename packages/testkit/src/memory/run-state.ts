/** The one place where a run of the memory record changes its state. */
import {
  revisionOf,
  REVISIONS_PER_GENERATION,
  type EndReason,
  type ErrorObject,
  type MessageId,
  type TerminalState,
} from "@signalbox/contract";
import { nextGeneration, nextInLine, transition, type RunEvent } from "@signalbox/core";
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
  const admitted = moveRun(db, run, { by: "admit" });
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
      data: { outcome, reason, error, messageId: answerId },
    });
  }
  writeAudit(db, "message_completed", { run: ended, generation, facts: { outcome, reason } });
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

/** Under sabotage a run that has ended is ended once more. */
function isForced(db: MemoryDatabase, run: RunRow): boolean {
  return db.sabotage === "finish_twice" && run.finishedAtMs !== null;
}

function admitNext(db: MemoryDatabase, conversationId: string): RunRow | null {
  const runs = db.runsOf(conversationId);
  const waiting = runs.filter((run) => run.state === "queued");
  const next =
    db.sabotage === "last_in_first_out" && nextInLine(runs) !== null
      ? waiting.reduce<RunRow | null>((last, run) => (last === null || run.position > last.position ? run : last), null)
      : nextInLine(runs);
  if (next === null || db.sabotage === "stranded_queue") return null;
  const admitted = admitRun(db, next);
  const { generation } = db.ownerships.must(conversationId);
  waiting
    .filter((run) => run.id !== next.id)
    .forEach((run, index) => {
      const data = { messageId: run.messageId, position: index + 1 };
      writeEvent(db, placeOf(run, generation), {
        type: "queue.moved",
        itemId: run.messageId,
        revision: revisionOf(generation, 0),
        data,
      });
    });
  return admitted;
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
