/**
 * Counts the places this process may still claim for: what its workers have free, less what is promised to runs that
 * were claimed, or are being admitted, and have no seat yet.
 */
import type { WorkerPool } from "../ports/worker.ts";

export interface Promised {
  /** The run has its seat, or needs none any more. Idempotent. */
  settle(): void;
}

export interface Room {
  /** Free places by runtime. */
  free(): Readonly<Record<string, number>>;
  promise(runtime: string): Promised;
}

export function createRoom(pool: Pick<WorkerPool, "room">): Room {
  const promised = new Map<string, number>();
  const add = (runtime: string, count: number): void => {
    promised.set(runtime, (promised.get(runtime) ?? 0) + count);
  };
  return {
    free() {
      const free: Record<string, number> = {};
      for (const [runtime, count] of Object.entries(pool.room())) {
        free[runtime] = Math.max(count - (promised.get(runtime) ?? 0), 0);
      }
      return free;
    },
    promise(runtime) {
      add(runtime, 1);
      let settled = false;
      return {
        settle() {
          if (!settled) {
            settled = true;
            add(runtime, -1);
          }
        },
      };
    },
  };
}
