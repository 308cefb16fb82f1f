/** When a model call is tried again: by its code alone, a bounded number of times and for a bounded total wait. */
import type { PlatformError } from "@signalbox/contract";

const TRIES_MAX = 4;
const WAIT_FIRST_MS = 500;
const WAIT_MAX_MS = 8_000;
const WAIT_TOTAL_MAX_MS = 60_000;
/** Waits are stretched by up to this share, never shortened: nobody wakes earlier than told, few at the same time. */
const JITTER = 0.3;

export class RetryBudget {
  #triesCount = 1;
  #waitedMs = 0;
  readonly #fraction: () => number;

  constructor(fraction: () => number = Math.random) {
    this.#fraction = fraction;
  }

  /** How long to wait before the next try, or `null` when the error stands. */
  nextWaitMs(error: PlatformError): number | null {
    const { retryable, fault } = error.facts;
    if (!retryable || fault !== "provider" || this.#triesCount >= TRIES_MAX) {
      return null;
    }
    const backoffMs = Math.min(WAIT_MAX_MS, WAIT_FIRST_MS * 2 ** (this.#triesCount - 1));
    const waitMs = Math.max(backoffMs, error.retryAfterMs ?? 0) * (1 + this.#fraction() * JITTER);
    if (this.#waitedMs + waitMs > WAIT_TOTAL_MAX_MS) {
      return null;
    }
    this.#triesCount += 1;
    this.#waitedMs += waitMs;
    return waitMs;
  }
}
