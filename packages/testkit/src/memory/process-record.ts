/** Processes: their lease, their presence, and what becomes of the calls of those that died. */
import { NO_USAGE, PlatformError } from "@signalbox/contract";
import type { ProcessRecord } from "@signalbox/core";
import type { MemoryDatabase } from "./database.ts";
import { endAbandoned } from "./ending.ts";
import { writeModelSettled, writeToolFinished } from "./call-events.ts";
import { isAlive } from "./alive.ts";
import type { ProcessRow } from "./rows.ts";
import { expireHolds } from "./suspension.ts";

/**
 * Registration, heartbeat and sweep of processes, on the memory record. A process that was declared dead gets
 * `stale_generation`.
 */
export function memoryProcessRecord(db: MemoryDatabase): ProcessRecord {
  return {
    register: async (roles) =>
      db.transaction("register", {}, () => {
        const incarnation = db.processes.all().length + 1;
        const leaseUntilMs = db.nowMs() + db.leaseMs;
        db.processes.set(String(incarnation), { incarnation, roles, leaseUntilMs, deadAtMs: null, sessionHeld: true });
        return { process: incarnation, leaseMs: db.leaseMs };
      }),
    heartbeat: async (process) =>
      db.transaction("heartbeat", {}, () => {
        if (!isAlive(db, process)) throw new PlatformError("stale_generation");
        db.processes.update(String(process), { leaseUntilMs: db.nowMs() + db.leaseMs, sessionHeld: true });
      }),
    sweep: async (process) => db.transaction("sweep", {}, () => sweep(db, process)),
    unregister: async (process) =>
      db.transaction("unregister", {}, () => {
        if (isAlive(db, process)) bury(db, db.processes.must(String(process)));
      }),
  };
}

function sweep(db: MemoryDatabase, by: number): number {
  if (!isAlive(db, by)) throw new PlatformError("stale_generation");
  const dead = db.processes.where(
    (each) =>
      each.incarnation !== by && each.deadAtMs === null && (!each.sessionHeld || each.leaseUntilMs < db.nowMs()),
  );
  for (const process of dead) bury(db, process);
  expireHolds(db);
  endAbandoned(db);
  return dead.length;
}

/** Nobody will close the calls of a dead gate: what may have happened is recorded as such. */
export function bury(db: MemoryDatabase, process: ProcessRow): void {
  db.processes.update(String(process.incarnation), { deadAtMs: db.nowMs(), sessionHeld: false });
  for (const call of db.toolCalls.where((each) => each.process === process.incarnation && each.state === "executing")) {
    const unknown = db.toolCalls.update(call.id, { state: "unknown", resultSummary: "The outcome is not known." });
    writeToolFinished(db, unknown);
  }
  for (const call of db.modelCalls.where(
    (each) => each.process === process.incarnation && each.state === "executing",
  )) {
    const estimated = db.modelCalls.update(call.id, { state: "estimated" });
    writeModelSettled(db, estimated, {
      servedModel: call.requestedModel,
      usage: NO_USAGE,
      costMicros: null,
      priceVersion: null,
    });
  }
}
