/** Holds of the memory record: opened, and closed once, each with its event and its audit row. */
import { revisionOf, type Decision, type Wait } from "@signalbox/contract";
import type { HoldRequest } from "@signalbox/core";
import { moveAskedCall } from "./asked-calls.ts";
import { writeAudit } from "./audit.ts";
import type { MemoryDatabase } from "./database.ts";
import { placeOf, writeEvent } from "./event-log.ts";
import type { HoldRow, RunRow } from "./rows.ts";

export function openHolds(db: MemoryDatabase, runId: string): readonly HoldRow[] {
  return db.holds.where((hold) => hold.runId === runId && hold.state === "open");
}

export function waitingFor(db: MemoryDatabase, runId: string): Wait[] {
  return openHolds(db, runId).map(({ id, kind, openedAtMs }) => ({
    holdId: id,
    kind,
    since: new Date(openedAtMs).toISOString(),
  }));
}

/** An id that is known already is that hold: the reply was lost. */
export function putHold(db: MemoryDatabase, run: RunRow, request: HoldRequest): HoldRow {
  const { holdId, kind, subject, digest, expiresInMs } = request;
  const known = db.holds.get(holdId);
  if (known !== undefined) return known;
  const openedAtMs = db.nowMs();
  const expiresAtMs = expiresInMs === null ? null : openedAtMs + expiresInMs;
  const hold: HoldRow = {
    id: holdId,
    runId: run.id,
    conversationId: run.conversationId,
    kind,
    subject,
    digest,
    state: "open",
    decision: null,
    response: null,
    openedAtMs,
    expiresAtMs,
  };
  db.holds.set(holdId, hold);
  tellOpened(db, hold, run.generation ?? 0);
  return hold;
}

/** As new: with as much time as it had, and as a newer form of the same item. */
export function askAgain(db: MemoryDatabase, hold: HoldRow): void {
  const openedAtMs = db.nowMs();
  const expiresAtMs = hold.expiresAtMs === null ? null : openedAtMs + hold.expiresAtMs - hold.openedAtMs;
  const open = db.holds.update(hold.id, { state: "open", decision: null, response: null, openedAtMs, expiresAtMs });
  tellOpened(db, open, db.ownerships.must(hold.conversationId).generation);
}

export function tellOpened(db: MemoryDatabase, hold: HoldRow, generation: number): void {
  const run = db.runs.must(hold.runId);
  const { id: holdId, kind, subject, digest, expiresAtMs } = hold;
  const expiresAt = expiresAtMs === null ? null : new Date(expiresAtMs).toISOString();
  writeEvent(db, placeOf(run, generation), {
    type: "hold.opened",
    itemId: holdId,
    revision: revisionOf(generation, 0),
    data: { holdId, kind, subject: { ...subject }, digest, expiresAt },
  });
  writeAudit(db, "hold_opened", { run, generation });
}

export function closeHold(
  db: MemoryDatabase,
  hold: HoldRow,
  how:
    | { readonly state: "decided"; readonly decision: Decision; readonly response: unknown }
    | { readonly state: "expired" | "withdrawn" },
): void {
  const run = db.runs.must(hold.runId);
  const { generation } = db.ownerships.must(hold.conversationId);
  const place = placeOf(run, generation);
  const item = { itemId: hold.id, revision: revisionOf(generation, 1) };
  const data = { holdId: hold.id, kind: hold.kind };
  const { decision = null, response = null } = how.state === "decided" ? how : {};
  const closed = db.holds.update(hold.id, { state: how.state, decision, response });
  if (how.state === "decided") {
    writeEvent(db, place, { ...item, type: "hold.decided", data: { ...data, decision: how.decision } });
  } else {
    writeEvent(db, place, { ...item, type: `hold.${how.state}`, data });
  }
  writeAudit(db, `hold_${how.state}`, { run, generation });
  if (hold.kind === "approval") moveAskedCall(db, closed);
}

/** The run ends: nobody is asked any more. */
export function withdrawHolds(db: MemoryDatabase, run: RunRow): void {
  for (const hold of openHolds(db, run.id)) closeHold(db, hold, { state: "withdrawn" });
}
