/** The powers of one simulated process: its clocks, its randomness, its log, all from the seed and virtual time. */
import { createHash } from "node:crypto";
import type { Cancellation, Clock, Digest, Log, Randomness } from "@signalbox/core";
import type { Tell } from "./history.ts";
import type { Life, Scheduler } from "./scheduler.ts";
import type { Seeded } from "./seeded.ts";

/** Virtual time begins here, so that times and ids look like times and ids. */
export const BEGIN_AT_MS = 1_790_000_000_000;

export interface Machine {
  readonly clock: Clock;
  readonly cancellation: Cancellation;
  readonly randomness: Randomness;
  readonly digest: Digest;
  readonly log: Log;
}

export interface MachineOptions {
  readonly scheduler: Scheduler;
  readonly life: Life;
  readonly random: Seeded;
  /** How wrong this machine's wall clock is. */
  readonly skewMs: number;
  readonly tell: Tell;
}

export function createMachine(options: MachineOptions): Machine {
  const { life, random, tell } = options;
  return {
    clock: virtualClock(options),
    cancellation: { source: () => new AbortController() },
    randomness: { bytes: (count) => random.bytes(count), fraction: () => random.fraction() },
    digest: { sha256Hex: (text) => createHash("sha256").update(text, "utf8").digest("hex") },
    log: {
      info: (message, facts) => tell(life, () => `${message} ${JSON.stringify(facts ?? {})}`),
      warn: (message, facts) => tell(life, () => `warning: ${message} ${JSON.stringify(facts ?? {})}`),
      error: (message, error, facts) =>
        tell(life, () => `error: ${message}: ${describe(error)} ${JSON.stringify(facts ?? {})}`),
    },
  };
}

function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const cause = error.cause === undefined ? "" : ` (${describe(error.cause)})`;
  return `${error.message}${cause}`;
}

function virtualClock({ scheduler, life, skewMs }: MachineOptions): Clock {
  return {
    nowMs: () => BEGIN_AT_MS + scheduler.nowMs + skewMs,
    monotonicMs: () => scheduler.nowMs,
    sleep(delayMs, signal) {
      if (signal?.aborted === true) return Promise.resolve("aborted");
      const rest = Promise.withResolvers<"elapsed" | "aborted">();
      const onAbort = (): void => rest.resolve("aborted");
      signal?.addEventListener("abort", onAbort, { once: true });
      scheduler.after(delayMs, life, () => {
        signal?.removeEventListener("abort", onAbort);
        rest.resolve("elapsed");
      });
      return rest.promise;
    },
  };
}
