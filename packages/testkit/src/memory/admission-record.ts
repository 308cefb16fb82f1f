import { PlatformError, revisionOf, REVISIONS_PER_GENERATION } from "@signalbox/contract";
import {
  isActive,
  runsAhead,
  type Admission,
  type AdmissionRecord,
  type AdmitCommand,
  type CancelCommand,
  type CancelOutcome,
} from "@signalbox/core";
import { writeAudit } from "./audit.ts";
import { claimRun } from "./claiming.ts";
import type { MemoryDatabase } from "./database.ts";
import { placeOf, writeEvent } from "./event-log.ts";
import { isAlive } from "./alive.ts";
import type { RunRow } from "./rows.ts";
import { admitRun } from "./run-state.ts";
import { endFromOutside } from "./ending.ts";

/**
 * Admission and cancellation on the memory record. Ends with `not_found`, `idempotency_key_reused`, `conversation_busy`
 * or `queue_full`.
 */
export function memoryAdmissionRecord(db: MemoryDatabase): AdmissionRecord {
  return {
    admit: async (command) => db.transaction("admit", {}, () => admit(db, command)),
    requestCancel: async (command) => db.transaction("request_cancel", {}, () => requestCancel(db, command)),
  };
}

function admit(db: MemoryDatabase, command: AdmitCommand): Admission {
  const conversation = db.conversations.get(command.conversationId);
  if (conversation === undefined || conversation.tenantId !== command.tenantId) throw new PlatformError("not_found");
  const replay = replayed(db, command);
  if (replay !== null) return replay;
  const runs = db.runsOf(conversation.id);
  let position = runsAhead(runs.filter((run) => !run.takenIn));
  refuseWhenBusy(runs, command, position);
  refuseOverLimit(db, command);
  const active = runs.find((run) => isActive(run.state)) ?? null;
  const steerInto = steerable(runs, active, command) ? (active?.id ?? null) : null;
  const cursor = conversation.lastSequence;
  const queued = recordMessage(db, command, conversation.lastPosition + 1);
  const begins = position === 0 || (db.sabotage === "two_active_runs" && runs.length % 3 === 1);
  if (steerInto !== null) db.runs.update(queued.id, { steerInto });
  if (begins) admitRun(db, queued);
  const moved = !begins && active !== null && isEnded(db, active, command);
  if (moved) position -= 1;
  else if (!begins) tellPosition(db, queued, position);
  const isNext = begins || (moved && position === 0);
  const accepted = isNext ? "started" : steerInto === null ? "queued" : "steered";
  const claim = isNext ? claimNow(db, queued, command.claimFor) : null;
  const { messageId, runId } = command;
  if (command.idempotency !== null) {
    const { key, bodyHash } = command.idempotency;
    db.idempotency.set(`${command.tenantId} ${key}`, { bodyHash, messageId, runId, accepted, position, cursor });
  }
  const events = db.eventsOf(conversation.id).filter(({ sequence }) => sequence !== null && sequence > cursor);
  return { kind: "admitted", messageId, runId, accepted, position, cursor, claim, events };
}

function replayed(db: MemoryDatabase, command: AdmitCommand): Admission | null {
  if (command.idempotency === null) return null;
  const known = db.idempotency.get(`${command.tenantId} ${command.idempotency.key}`);
  if (known === undefined || db.sabotage === "idempotency_forgotten") return null;
  const { bodyHash, ...answer } = known;
  if (bodyHash !== command.idempotency.bodyHash) throw new PlatformError("idempotency_key_reused");
  return { kind: "replayed", ...answer, claim: null, events: [] };
}

function refuseWhenBusy(runs: readonly RunRow[], command: AdmitCommand, position: number): void {
  if (position > 0 && command.whenBusy === "reject") {
    const active = runs.find((run) => isActive(run.state));
    throw new PlatformError("conversation_busy", undefined, { extra: { activeRunId: active?.id ?? null } });
  }
  const waiting = runs.filter((run) => run.state === "queued" && !run.takenIn);
  if (waiting.length >= command.queueLimit) throw new PlatformError("queue_full");
}

const MINUTE_MS = 60_000;

function refuseOverLimit(db: MemoryDatabase, command: AdmitCommand): void {
  const { conversationId, tenantId, minuteLimit, tenantLimit } = command;
  const open = db.runs.where(
    (run) =>
      run.tenantId === tenantId && (run.state === "queued" || (isActive(run.state) && run.state !== "suspended")),
  );
  if (open.length >= tenantLimit) throw new PlatformError("too_many_runs");
  const nowMs = db.nowMs();
  const pacedUntilMs = Math.max(db.ownerships.must(conversationId).pacedUntilMs, nowMs) + MINUTE_MS / minuteLimit;
  if (pacedUntilMs > nowMs + MINUTE_MS) throw new PlatformError("message_rate_exceeded");
  db.ownerships.update(conversationId, { pacedUntilMs });
}

function recordMessage(db: MemoryDatabase, command: AdmitCommand, position: number): RunRow {
  const { conversationId, messageId, runId } = command;
  const nowMs = db.nowMs();
  db.conversations.update(conversationId, { lastPosition: position });
  db.snapshots.set(command.snapshotHash, { hash: command.snapshotHash, snapshot: command.snapshot });
  const { text, metadata } = command;
  db.messages.set(messageId, {
    id: messageId,
    conversationId,
    runId,
    role: "user",
    text,
    partial: false,
    struck: false,
    position,
    metadata,
    createdAtMs: nowMs,
  });
  const run: RunRow = {
    id: runId,
    tenantId: command.tenantId,
    conversationId,
    messageId,
    snapshotHash: command.snapshotHash,
    runtime: command.snapshot.runtime,
    state: "queued",
    reason: null,
    generation: null,
    owner: null,
    position,
    attempt: 0,
    actor: command.actor,
    requested: command.requested,
    granted: command.granted,
    rung: null,
    servedModel: null,
    traceId: command.traceId,
    error: null,
    conclusion: null,
    cancelCause: null,
    cancelStrikes: false,
    steerInto: null,
    takenIn: false,
    acceptedAtMs: nowMs,
    startedAtMs: null,
    finishedAtMs: null,
    suspendedAtMs: null,
    suspendedMs: 0,
  };
  db.runs.set(runId, run);
  writeAudit(db, "message_received", { run, generation: null });
  const retried = db.runs.get(typeof command.requested.retryOf === "string" ? command.requested.retryOf : "");
  if (retried !== undefined) {
    const facts = { force: command.requested.retryForced === true, newRunId: runId };
    writeAudit(db, "run_retried", { run: { ...retried, actor: command.actor }, generation: null, facts });
  }
  return run;
}

/** Whether the active run is ended by this message at once, and the line has moved on. */
function isEnded(db: MemoryDatabase, active: RunRow, { whenBusy }: AdmitCommand): boolean {
  const ends = whenBusy === "interrupt" || whenBusy === "rollback";
  return ends && endFromOutside(db, active, { cause: "superseded", strikes: whenBusy === "rollback" }) === "ended";
}

function steerable(runs: readonly RunRow[], active: RunRow | null, command: AdmitCommand): boolean {
  if (command.whenBusy !== "steer" || active?.state !== "running" || active.cancelCause !== null) return false;
  const others = runs.filter((run) => run.state === "queued" && !run.takenIn && run.steerInto !== active.id);
  return others.length === 0 && command.steerable.includes(active.runtime);
}

function claimNow(db: MemoryDatabase, run: RunRow, claimFor: number | null): Admission["claim"] {
  const admitted = db.runs.must(run.id);
  return claimFor !== null && isAlive(db, claimFor) && admitted.state === "admitted"
    ? claimRun(db, admitted, { process: claimFor, cause: "ready" })
    : null;
}

function tellPosition(db: MemoryDatabase, run: RunRow, position: number): void {
  const { generation } = db.ownerships.must(run.conversationId);
  writeEvent(db, placeOf(run, generation), {
    type: "queue.moved",
    itemId: run.messageId,
    revision: revisionOf(generation, REVISIONS_PER_GENERATION - 1 - position),
    data: { messageId: run.messageId, position },
  });
}

function requestCancel(db: MemoryDatabase, command: CancelCommand): CancelOutcome {
  const run = db.runs.get(command.runId);
  if (run === undefined || run.tenantId !== command.tenantId) throw new PlatformError("not_found");
  const kind = endFromOutside(db, run, { cause: "user_cancel", strikes: false });
  return { kind, state: db.runs.must(run.id).state };
}
