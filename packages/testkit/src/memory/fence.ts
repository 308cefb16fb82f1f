/** The comparison that every owner's write and every intent makes in its own statement. */
import { PlatformError, type RunState } from "@signalbox/contract";
import { isCurrent } from "@signalbox/core";
import type { MemoryDatabase } from "./database.ts";
import type { RunRow } from "./rows.ts";

export interface Presented {
  readonly conversationId: string;
  readonly runId: string;
  readonly generation: number;
}

export function fencedRun(db: MemoryDatabase, presented: Presented, states: readonly RunState[]): RunRow {
  const ownership = db.ownerships.must(presented.conversationId);
  const run = db.runs.must(presented.runId);
  const held = isCurrent(presented.generation, ownership.generation) && states.includes(run.state);
  if (!held && !isBroken(db, run)) throw new PlatformError("stale_generation");
  return run;
}

/** Under sabotage, whatever is not over can be written, or what is over can be ended once more. */
function isBroken(db: MemoryDatabase, run: RunRow): boolean {
  if (db.sabotage === "finish_twice") return run.finishedAtMs !== null;
  return db.sabotage === "write_without_fence" && (run.state === "running" || run.state === "finalizing");
}
