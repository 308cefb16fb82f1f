/** The machine behind the ports: its clocks, its randomness, its digests. The only place that touches them. */
import { createHash, randomBytes, randomFillSync } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import type { Cancellation, CancelSignal, Clock, Digest, Randomness } from "@signalbox/core";

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
  async sleep(delayMs: number, signal?: CancelSignal): Promise<"elapsed" | "aborted"> {
    if (signal?.aborted === true) return "aborted";
    const stop = new AbortController();
    const onAbort = (): void => stop.abort();
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      await delay(delayMs, undefined, { signal: stop.signal });
      return "elapsed";
    } catch {
      return "aborted";
    } finally {
      signal?.removeEventListener("abort", onAbort);
    }
  },
};

const FRACTION_STEPS = 2 ** 32;

export const systemRandomness: Randomness = {
  bytes: (count) => new Uint8Array(randomBytes(count)),
  fraction: () => randomFillSync(new Uint32Array(1))[0]! / FRACTION_STEPS,
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
