/** A run that waits: suspended when patience ends, woken by what closes the last of its holds. */
import { PlatformError } from "@signalbox/contract";
import {
  nextGeneration,
  type DecideCommand,
  type Held,
  type HoldChange,
  type HoldRecord,
  type Suspension,
} from "@signalbox/core";
import { writeAudit } from "./audit.ts";
import type { CallFacts, MemoryDatabase } from "./database.ts";
import { writeRunEvent } from "./event-log.ts";
import { fencedRun } from "./fence.ts";
import { closeHold, openHolds, putHold, waitingFor } from "./holds.ts";
import type { HoldRow, RunRow } from "./rows.ts";
import { moveRun, unbindSlots } from "./run-state.ts";
import { boundForIntent } from "./slots.ts";

/**
 * Holds as gates and people use them, on the memory record. Ends with `slot_unknown`, `stale_generation` or
 * `run_cancelled` for a gate, with `not_found`, `hold_closed` or `approval_changed` for who decides.
 */
export function memoryHoldRecord(
  db: MemoryDatabase,
): HoldRecord & { decide(command: DecideCommand): Promise<HoldChange> } {
  const presented = ({ conversationId, generation }: Held): CallFacts => ({
    presented: { conversationId, generation },
  });
  return {
    openHold: async (request) => {
      const { conversationId = "", generation = null } = db.slots.get(request.tokenHash) ?? {};
      const facts = { presented: generation === null ? null : { conversationId, generation } };
      return db.transaction("open_hold", facts, () => {
        const { run, generation: current } = boundForIntent(db, request.tokenHash, request.process);
        const hold = putHold(db, run, request);
        return { holdId: hold.id, conversationId: run.conversationId, generation: current };
      });
    },
    isHoldOver: async ({ holdId, conversationId, generation }) =>
      db.transaction("hold_over", {}, () => {
        const ownership = db.ownerships.must(conversationId);
        const waits = db.holds.get(holdId)?.state === "open" && ownership.cancelAtMs === null;
        return !waits || ownership.generation !== generation;
      }),
    suspend: async (held) =>
      db.transaction("suspend", presented(held), () => {
        const run = db.runsOf(held.conversationId).find((each) => each.state === "running");
        if (run === undefined) throw new PlatformError("stale_generation");
        return suspendRun(db, { ...held, runId: run.id });
      }),
    decide: async (command) => {
      const change = db.transaction("decide_hold", {}, () => decide(db, command));
      // Not inside the transaction: that the hold is closed stays.
      if (change === "too_late") throw new PlatformError("hold_closed");
      return change;
    },
  };
}

export function suspendRun(db: MemoryDatabase, held: Held & { readonly runId: string }): Suspension {
  const run = fencedRun(db, held, ["running"]);
  const ownership = db.ownerships.must(run.conversationId);
  if (openHolds(db, run.id).length === 0 || ownership.cancelAtMs !== null) return "go_on";
  const isOutside = (call: { readonly runId: string; readonly state: string }): boolean =>
    call.runId === run.id && call.state === "executing";
  if (db.modelCalls.where(isOutside).length > 0 || db.toolCalls.where(isOutside).length > 0) return "busy";
  putToWait(db, run);
  return "suspended";
}

/** A run with an open hold needs nobody: no owner, no worker, no slot. */
export function putToWait(db: MemoryDatabase, run: RunRow): void {
  const suspended = moveRun(db, run, { by: "suspend", set: { owner: null, suspendedAtMs: db.nowMs() } });
  const generation = nextGeneration(db.ownerships.must(run.conversationId).generation);
  db.ownerships.update(run.conversationId, { generation, owner: null, readyAtMs: null, runtime: null });
  unbindSlots(db, run.conversationId);
  writeRunEvent(db, suspended, { type: "run.suspended", generation, data: { waitingFor: waitingFor(db, run.id) } });
  writeAudit(db, "run_suspended", { run: suspended, generation });
}

/** Answers whether a run can be claimed now that could not before. */
function wakeRun(db: MemoryDatabase, run: RunRow): boolean {
  if (run.state !== "suspended" || openHolds(db, run.id).length > 0 || db.sabotage === "decided_in_vain") return false;
  const suspendedMs = run.suspendedMs + db.nowMs() - (run.suspendedAtMs ?? db.nowMs());
  const woken = moveRun(db, run, { by: "resume", set: { suspendedAtMs: null, suspendedMs } });
  const { generation } = db.ownerships.must(run.conversationId);
  db.ownerships.update(run.conversationId, { readyAtMs: db.nowMs(), runtime: run.runtime });
  writeRunEvent(db, woken, { type: "run.resumed", generation, step: 1, data: {} });
  writeAudit(db, "run_resumed", { run: woken, generation });
  return true;
}

function decide(db: MemoryDatabase, command: DecideCommand): HoldChange | "too_late" {
  const hold = db.holds.get(command.holdId);
  if (hold === undefined) throw new PlatformError("not_found");
  const run = db.runs.must(hold.runId);
  if (run.tenantId !== command.tenantId) throw new PlatformError("not_found");
  if (hold.state === "decided") {
    writeAudit(db, "hold_decision_refused", { run, generation: null });
    return { kind: "already_decided", ready: false };
  }
  if (hold.state !== "open") throw new PlatformError("hold_closed");
  if (isOverdue(db, hold)) {
    expire(db, hold);
    return "too_late";
  }
  if (db.ownerships.must(run.conversationId).cancelAtMs !== null) {
    closeHold(db, hold, { state: "withdrawn" });
    return "too_late";
  }
  if (hold.digest !== null && hold.digest !== command.digest) {
    throw new PlatformError("approval_changed", undefined, { extra: { digest: hold.digest } });
  }
  if (hold.subject.approver === "other" && askedForIt(run, command)) {
    writeAudit(db, "hold_decision_refused", { run, generation: null });
    throw new PlatformError("permission_denied", "Somebody else than who asked for the run has to decide this.");
  }
  closeHold(db, hold, { state: "decided", decision: command.decision, response: command.response });
  return { kind: "decided", ready: wakeRun(db, run) };
}

/** A key that names nobody may be whoever used it before. */
function askedForIt({ actor: asked }: RunRow, { actor: decides }: DecideCommand): boolean {
  const isSamePerson = decides.user !== null && decides.user === asked.user;
  const mayBe = decides.keyId === asked.keyId && (decides.user === null || asked.user === null);
  return isSamePerson || mayBe;
}

/** What nobody decided in time. */
export function expireHolds(db: MemoryDatabase): void {
  for (const hold of db.holds.where((each) => each.state === "open" && isOverdue(db, each))) expire(db, hold);
}

function isOverdue(db: MemoryDatabase, { expiresAtMs }: HoldRow): boolean {
  return expiresAtMs !== null && expiresAtMs <= db.nowMs();
}

function expire(db: MemoryDatabase, hold: HoldRow): void {
  closeHold(db, hold, { state: "expired" });
  wakeRun(db, db.runs.must(hold.runId));
}
