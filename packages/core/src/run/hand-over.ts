/** Facts about the queue of one conversation. `position` is given at acknowledgement, under the ownership lock. */
import type { RunState } from "@signalbox/contract";
import { isActive } from "./transition.ts";

export interface QueuedRun {
  readonly position: number;
  readonly state: RunState;
}

/** The run that is answered next once nobody is active: first acknowledged, first answered. */
export function nextInLine<Run extends QueuedRun>(runs: Iterable<Run>): Run | null {
  let next: Run | null = null;
  for (const run of runs) {
    if (isActive(run.state)) {
      return null;
    }
    if (run.state === "queued" && (next === null || run.position < next.position)) {
      next = run;
    }
  }
  return next;
}

/** How many runs are answered before one that is accepted now: the active one and those that wait. */
export function runsAhead(runs: Iterable<QueuedRun>): number {
  let count = 0;
  for (const run of runs) {
    if (run.state === "queued" || isActive(run.state)) {
      count += 1;
    }
  }
  return count;
}
