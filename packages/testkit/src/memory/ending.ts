/** Ends an active run from outside: marks it for its owner, or ends it where nobody has to be asked. */
import { createHash } from "node:crypto";
import {
  isTerminal,
  makeId,
  revisionOf,
  REVISIONS_PER_GENERATION,
  uuidV7Bytes,
  type CancelCause,
  type MessageId,
} from "@signalbox/contract";
import { createItemFold, isOwned, type CancelOutcome } from "@signalbox/core";
import { writeAudit } from "./audit.ts";
import type { MemoryDatabase } from "./database.ts";
import { placeOf, writeEvent } from "./event-log.ts";
import { isAlive } from "./alive.ts";
import type { RunRow } from "./rows.ts";
import { endRun, moveRun, takenInBy, unbindSlots, withdrawProposals } from "./run-state.ts";
import { settleTranscript } from "./transcript.ts";

export interface OutsideEnding {
  readonly cause: CancelCause;
  /** The turn is to be struck. */
  readonly strikes: boolean;
}

export function endFromOutside(db: MemoryDatabase, run: RunRow, ending: OutsideEnding): CancelOutcome["kind"] {
  if (isTerminal(run.state)) return "already_ended";
  if (run.state === "finalizing" || run.takenIn) return "ending";
  const { generation, owner } = db.ownerships.must(run.conversationId);
  const marked = db.runs.update(run.id, {
    cancelCause: run.cancelCause ?? ending.cause,
    cancelStrikes: run.cancelStrikes || ending.strikes,
  });
  if (run.cancelCause === null) writeAudit(db, "run_cancel_requested", { run, generation });
  if (run.state === "queued") {
    endRun(db, marked, {
      outcome: "cancelled",
      reason: marked.cancelCause ?? ending.cause,
      error: null,
      answerId: null,
    });
    return "ended";
  }
  if (isOwned(run.state)) {
    db.ownerships.update(run.conversationId, { cancelAtMs: db.nowMs() });
    if (owner !== null && isAlive(db, owner)) return "requested";
    moveRun(db, marked, { by: "seal" });
  }
  endUnowned(db, db.runs.must(run.id));
  return "ended";
}

/** The marked runs of dead processes. */
export function endAbandoned(db: MemoryDatabase): void {
  const left = db.ownerships.where(
    ({ owner, cancelAtMs }) => cancelAtMs !== null && owner !== null && !isAlive(db, owner),
  );
  for (const { conversationId } of left) {
    const run = db.runsOf(conversationId).find((each) => each.state === "running");
    if (run !== undefined) endUnowned(db, moveRun(db, run, { by: "seal" }));
  }
}

/**
 * Whether a rollback was asked for and the turn can be struck: no call with an effect left for the world outside in it,
 * and it did not compact.
 */
export function canStrike(db: MemoryDatabase, run: RunRow): boolean {
  const hasEffect = db.toolCalls
    .where((call) => call.runId === run.id)
    .some(({ effect, startedAtMs }) => startedAtMs !== null && (effect === "write" || effect === "irreversible"));
  const hasCompacted = db
    .eventsOf(run.conversationId)
    .some((event) => event.runId === run.id && event.type === "run.phase" && event.phase === "compacting");
  return run.cancelStrikes && !hasEffect && !hasCompacted;
}

/** Ends a marked run that nobody drives. What it had said is kept and marked. */
export function endUnowned(db: MemoryDatabase, run: RunRow): void {
  const strikes = canStrike(db, run);
  const text = closeItems(db, run);
  const answerId = text === "" ? null : newMessageId(db, run);
  if (answerId !== null) {
    db.messages.set(answerId, {
      id: answerId,
      conversationId: run.conversationId,
      runId: run.id,
      role: "assistant",
      text,
      partial: true,
      struck: false,
      position: Math.max(run.position, ...takenInBy(db, run).map(({ position }) => position)),
      metadata: {},
      createdAtMs: db.nowMs(),
    });
  }
  if (run.attempt > 0) {
    const continuity = answerId === null || strikes ? "kept" : "broken";
    settleTranscript(db, run, { continuity, leaf: null, digest: null, rung: null });
    unbindSlots(db, run.conversationId);
    withdrawProposals(db, run);
  }
  endRun(db, run, {
    outcome: strikes ? "rolled_back" : "cancelled",
    reason: run.cancelCause ?? "user_cancel",
    error: null,
    answerId,
  });
}

/** Closes what readers still see as open; the text that was written last. */
function closeItems(db: MemoryDatabase, run: RunRow): string {
  const { generation } = db.ownerships.must(run.conversationId);
  const fold = createItemFold();
  for (const event of db.eventsOf(run.conversationId)) if (event.runId === run.id) fold.apply(event);
  let answer = "";
  for (const { itemId, kind, state, text } of fold.items()) {
    if (kind === null) continue;
    if (state === "open") {
      const revision = revisionOf(generation, REVISIONS_PER_GENERATION - 1);
      writeEvent(db, placeOf(run, generation), { type: `${kind}.completed`, itemId, revision, data: { text } });
    }
    if (kind === "text") answer = text;
  }
  return answer.trim() === "" ? "" : answer;
}

/** The database makes this id from its own randomness; the simulation must tell the same history again. */
function newMessageId(db: MemoryDatabase, run: RunRow): MessageId {
  const digest = createHash("sha256").update(`answer of ${run.id}`).digest();
  return makeId("message", uuidV7Bytes(db.nowMs(), digest.subarray(0, 10)));
}
