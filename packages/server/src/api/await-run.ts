/**
 * Waiting for the end of a run: the bell wakes, and since bells may be lost, the live channel rings everybody about once
 * a second. The record alone says whether the run has ended.
 */
import { setTimeout as sleep } from "node:timers/promises";
import type { LiveSubscription } from "@signalbox/core";

export interface Waiting {
  readonly subscription: LiveSubscription;
  readonly hasEnded: () => Promise<boolean>;
  readonly forMs: number;
  /** Aborts when nobody waits any more, or this process stops. */
  readonly stop: AbortSignal;
}

/** Bells of a run that writes come many times a second; the record is not asked more often than this. */
const LOOK_EVERY_MS = 50;

/** True when the run has ended; false when the time is over, or nobody waits any more. */
export async function awaitRun(waiting: Waiting): Promise<boolean> {
  const { subscription, hasEnded, forMs, stop } = waiting;
  const over = AbortSignal.any([stop, AbortSignal.timeout(forMs)]);
  const close = (): void => subscription.close();
  over.addEventListener("abort", close, { once: true });
  try {
    if (await hasEnded()) return true;
    for await (const signal of subscription) {
      if (signal.kind === "delta") continue;
      if (await hasEnded()) return true;
      await sleep(LOOK_EVERY_MS, undefined, { signal: over }).catch(() => undefined);
      if (over.aborted) break;
    }
    // What was committed in the last moment counts.
    return !stop.aborted && (await hasEnded());
  } finally {
    over.removeEventListener("abort", close);
  }
}
