import type { WorkerClock } from "@signalbox/worker";

export interface MovedClock extends WorkerClock {
  /** Moves time on in small steps; `between` runs after each. */
  pass(durationMs: number, between?: () => Promise<unknown>): Promise<void>;
}

/** Time that only passes when the test says so. */
export function movedClock(): MovedClock {
  let nowMs = 1_000;
  const sleeping = new Set<{ readonly untilMs: number; readonly wake: () => void }>();
  return {
    nowMs: () => nowMs,
    monotonicMs: () => nowMs,
    sleep: (delayMs, signal) =>
      new Promise((resolve) => {
        if (signal?.aborted === true) {
          resolve("aborted");
          return;
        }
        const sleeper = {
          untilMs: nowMs + delayMs,
          wake: () => {
            sleeping.delete(sleeper);
            resolve("elapsed");
          },
        };
        sleeping.add(sleeper);
        signal?.addEventListener("abort", () => {
          sleeping.delete(sleeper);
          resolve("aborted");
        });
      }),
    pass: async (durationMs, between) => {
      const endMs = nowMs + durationMs;
      while (nowMs < endMs) {
        nowMs = Math.min(endMs, nowMs + 500);
        for (const sleeper of [...sleeping].filter((each) => each.untilMs <= nowMs)) {
          sleeper.wake();
        }
        await new Promise((resolve) => setImmediate(resolve));
        await between?.();
      }
    },
  };
}
