/** A store that is not what it was: no earlier process, token, number or approval acts in what comes after. */
import { nextGeneration } from "@signalbox/core";
import { writeAudit } from "./audit.ts";
import type { MemoryDatabase } from "./database.ts";
import { askAgain } from "./holds.ts";
import { bury } from "./process-record.ts";
import type { RunRow } from "./rows.ts";
import { putToWait } from "./suspension.ts";

/** Further than a lost generation can have grown. */
const GENERATION_JUMP = 1_048_576;

export function openEra(db: MemoryDatabase): void {
  db.transaction("open_era", {}, () => {
    const number = db.eras.all().length + 2;
    db.eras.set(String(number), { number, openedAtMs: db.nowMs() });
    for (const { conversationId, generation } of db.ownerships.all()) {
      if (db.sabotage === "era_keeps_generations") continue;
      db.ownerships.update(conversationId, { generation: nextGeneration(generation) + GENERATION_JUMP });
    }
    for (const { tokenHash } of db.slots.all()) db.slots.update(tokenHash, { runId: null, generation: null });
    if (db.sabotage !== "era_keeps_processes") {
      for (const process of db.processes.where(({ deadAtMs }) => deadAtMs === null)) bury(db, process);
    }
    if (db.sabotage !== "era_keeps_approvals") askWhatWasApproved(db);
    const tenants = new Map(db.runs.all().map((run) => [run.tenantId, run]));
    for (const run of tenants.values()) {
      writeAudit(db, "incarnation_opened", { run, generation: null, facts: { era: number } });
    }
  });
}

/** Nobody knows whether what was approved was carried out. A run that is to end waits for nothing. */
function askWhatWasApproved(db: MemoryDatabase): void {
  const goesOn = (run: RunRow): boolean =>
    run.cancelCause === null && (run.state === "admitted" || run.state === "running" || run.state === "suspended");
  const asked = new Set<string>();
  for (const hold of db.holds.where(({ state, kind }) => state === "decided" && kind === "approval")) {
    const [call] = db.toolCalls.where(({ holdId }) => holdId === hold.id);
    const isCarriedOut = call !== undefined && call.state !== "authorized" && call.state !== "proposed";
    if (isCarriedOut || !goesOn(db.runs.must(hold.runId))) continue;
    if (call !== undefined) db.toolCalls.update(call.id, { state: "awaiting_approval" });
    askAgain(db, hold);
    asked.add(hold.runId);
  }
  for (const runId of asked) {
    const run = db.runs.must(runId);
    if (run.state !== "suspended") putToWait(db, run);
  }
}
