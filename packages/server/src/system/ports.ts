/** The machine behind the ports: its clocks, its randomness, its digests. The only place that touches them. */
import { createHash, randomBytes, randomFillSync } from "node:crypto";
import type { Cancellation, CancelSignal, Clock, Digest, Randomness } from "@signalbox/core";

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  // A bare timer: most sleeps are bounds that something else ends, and an abort by exception costs a stack each time.
  sleep(delayMs: number, signal?: CancelSignal): Promise<"elapsed" | "aborted"> {
    if (signal?.aborted === true) return Promise.resolve("aborted");
    return new Promise((resolve) => {
      const onAbort = (): void => {
        clearTimeout(timer);
        resolve("aborted");
      };
      const timer = setTimeout(
        () => {
          signal?.removeEventListener("abort", onAbort);
          resolve("elapsed");
          // What is overdue is due now.
        },
        Math.max(0, delayMs),
      );
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  },
};

const FRACTION_STEPS = 2 ** 32;

export const systemRandomness: Randomness = {
  bytes: (count) => new Uint8Array(randomBytes(count)),
  fraction: () => (randomFillSync(new Uint32Array(1))[0] ?? 0) / FRACTION_STEPS,
};

export const systemDigest: Digest = {
  sha256Hex: (text) => createHash("sha256").update(text, "utf8").digest("hex"),
};

export const systemCancellation: Cancellation = {
  source: () => {
    const controller = new AbortController();
    return { signal: controller.signal, abort: (reason) => controller.abort(reason) };
  },
};
