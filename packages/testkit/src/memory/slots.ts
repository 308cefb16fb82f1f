/** What a slot may do is a row; these compare it with who owns the conversation now. */
import { PlatformError } from "@signalbox/contract";
import { isCurrent } from "@signalbox/core";
import type { MemoryDatabase } from "./database.ts";
import { isAlive } from "./alive.ts";
import type { RunRow, SlotRow } from "./rows.ts";

export function slotOf(db: MemoryDatabase, tokenHash: string): SlotRow {
  const slot = db.slots.get(tokenHash);
  if (slot === undefined) throw new PlatformError("slot_unknown");
  return slot;
}

export interface BoundSlot {
  readonly slot: SlotRow;
  readonly run: RunRow;
  readonly generation: number;
}

/** The run a slot works for, if that is still so: the same comparison for an intent and for a transcript entry. */
export function boundSlot(db: MemoryDatabase, tokenHash: string): BoundSlot {
  const slot = slotOf(db, tokenHash);
  if (slot.runId === null || slot.generation === null) throw new PlatformError("slot_unknown");
  const run = db.runs.must(slot.runId);
  const { generation } = db.ownerships.must(slot.conversationId);
  if (!isCurrent(slot.generation, generation) || run.state !== "running") throw new PlatformError("stale_generation");
  return { slot, run, generation: slot.generation };
}

/** `boundSlot`, and nobody asked to stop, and the gate itself is alive. */
export function boundForIntent(db: MemoryDatabase, tokenHash: string, process: number): BoundSlot {
  const bound = db.sabotage === "intent_without_fence" ? looselyBound(db, tokenHash) : boundSlot(db, tokenHash);
  const { cancelAtMs } = db.ownerships.must(bound.slot.conversationId);
  if (cancelAtMs !== null && db.sabotage !== "intent_after_cancel") throw new PlatformError("run_cancelled");
  if (!isAlive(db, process)) throw new PlatformError("stale_generation");
  return bound;
}

/** Under sabotage a slot is believed whatever has become of its run. */
export function looselyBound(db: MemoryDatabase, tokenHash: string): BoundSlot {
  const slot = slotOf(db, tokenHash);
  const run = db.runsOf(slot.conversationId).findLast((each) => each.state === "running");
  if (run === undefined) throw new PlatformError("stale_generation");
  return { slot, run, generation: slot.generation ?? 0 };
}
