import { isTerminal, PlatformError, revisionOf } from "@signalbox/contract";
import {
  isActive,
  isOwned,
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
import { admitRun, endRun } from "./run-state.ts";

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
  const position = runsAhead(runs);
  refuseWhenBusy(runs, command, position);
  const cursor = conversation.lastSequence;
  const queued = recordMessage(db, command, conversation.lastPosition + 1);
  const begins = position === 0 || (db.sabotage === "two_active_runs" && runs.length % 3 === 1);
  const accepted = begins ? "started" : "queued";
  const claim = begins ? begin(db, queued, command.claimFor) : null;
  if (!begins) tellPosition(db, queued, position);
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
  if (runs.filter((run) => run.state === "queued").length >= command.queueLimit) throw new PlatformError("queue_full");
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
    acceptedAtMs: nowMs,
    startedAtMs: null,
    finishedAtMs: null,
    suspendedAtMs: null,
    suspendedMs: 0,
  };
  db.runs.set(runId, run);
  writeAudit(db, "message_received", { run, generation: null });
  return run;
}

function begin(db: MemoryDatabase, queued: RunRow, claimFor: number | null): Admission["claim"] {
  const admitted = admitRun(db, queued);
  return claimFor !== null && isAlive(db, claimFor)
    ? claimRun(db, admitted, { process: claimFor, cause: "ready" })
    : null;
}

function tellPosition(db: MemoryDatabase, run: RunRow, position: number): void {
  const { generation } = db.ownerships.must(run.conversationId);
  writeEvent(db, placeOf(run, generation), {
    type: "queue.moved",
    itemId: run.messageId,
    revision: revisionOf(generation, 0),
    data: { messageId: run.messageId, position },
  });
}

function requestCancel(db: MemoryDatabase, command: CancelCommand): CancelOutcome {
  const run = db.runs.get(command.runId);
  if (run === undefined || run.tenantId !== command.tenantId) throw new PlatformError("not_found");
  if (isTerminal(run.state) || run.state === "finalizing") return { kind: "already_ended", state: run.state };
  const { generation } = db.ownerships.must(run.conversationId);
  writeAudit(db, "run_cancel_requested", { run, generation });
  if (isOwned(run.state)) {
    db.ownerships.update(run.conversationId, { cancelAtMs: db.nowMs() });
    return { kind: "requested", state: run.state };
  }
  endRun(db, run, { outcome: "cancelled", reason: "user_cancel", error: null, answerId: null });
  return { kind: "ended", state: "cancelled" };
}
