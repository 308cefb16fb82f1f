import { performance } from "node:perf_hooks";

/** Time as a worker sees it. Fits the platform's own clock, so an embedding process can hand in one for both. */
export interface WorkerClock {
  /** Unix milliseconds; only for ids and log lines. */
  nowMs(): number;
  /** Never goes back; every bound and lease of a worker is measured on it. */
  monotonicMs(): number;
  /** Resolves after `delayMs`, or at once when `signal` aborts; tells which. */
  sleep(delayMs: number, signal?: AbortSignal): Promise<"elapsed" | "aborted">;
}

/** The machine's clock. Its timers keep no process alive. */
export const systemClock: WorkerClock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  sleep: (delayMs, signal) => sleepOnTimer(delayMs, signal),
};

function sleepOnTimer(delayMs: number, signal?: AbortSignal): Promise<"elapsed" | "aborted"> {
  if (signal?.aborted === true) {
    return Promise.resolve("aborted");
  }
  return new Promise((resolve) => {
    const onAbort = (): void => {
      clearTimeout(timer);
      resolve("aborted");
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve("elapsed");
    }, delayMs);
    timer.unref();
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

/** Waits for `work` to settle either way, at most `boundMs`; tells whether it did. */
export async function settledWithin(work: Promise<unknown>, boundMs: number, clock: WorkerClock): Promise<boolean> {
  const waiting = new AbortController();
  const settled = work.then(
    () => true,
    () => true,
  );
  const bound = clock.sleep(boundMs, waiting.signal).then(() => false);
  const inTime = await Promise.race([settled, bound]);
  waiting.abort();
  return inTime;
}
