/**
 * An outcome belongs to its call, and nobody but the gate that opened the call can close it while that gate lives. So it
 * is recorded again and again while the record is away, however long that takes; whoever waits for it is told after a
 * while that it is not recorded yet.
 */
import { asPlatformError, PlatformError } from "@signalbox/contract";
import type { Clock, Log } from "@signalbox/core";

export interface SettlingPorts {
  readonly clock: Clock;
  readonly log: Log;
  /** After how long whoever waits is told. */
  readonly patienceMs?: number;
}

const PAUSES_MS: readonly number[] = [50, 200, 800];
const LAST_PAUSE_MS = 2_000;
const PATIENCE_MS = 10_000;
const DONE = "done";

export class Settling implements AsyncDisposable {
  readonly #ports: SettlingPorts;
  readonly #stop = new AbortController();
  readonly #owed = new Set<Promise<unknown>>();

  constructor(ports: SettlingPorts) {
    this.#ports = ports;
  }

  /**
   * Runs `settle` until it succeeds or fails in a way that does not pass, or the gate has ended. Resolves and rejects as
   * it does; rejects with `database_unavailable` when that takes longer than patience, and goes on.
   */
  async firmly<T>(settle: () => Promise<T>): Promise<T> {
    const { clock, log, patienceMs = PATIENCE_MS } = this.#ports;
    const settled = this.#persist(settle);
    const owed = settled
      .catch((thrown: unknown) => log.error("an outcome could not be recorded", thrown))
      .finally(() => this.#owed.delete(owed));
    this.#owed.add(owed);
    const answered = new AbortController();
    const late = clock.sleep(patienceMs, answered.signal).then(() => null);
    try {
      const first = await Promise.race([settled.then((value) => ({ value })), late]);
      if (first === null) throw new PlatformError("database_unavailable", "The outcome is not recorded yet.");
      return first.value;
    } finally {
      answered.abort(DONE);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort(DONE);
    await Promise.all(this.#owed);
  }

  async #persist<T>(settle: () => Promise<T>): Promise<T> {
    const { clock, log } = this.#ports;
    const { signal } = this.#stop;
    let isEnding = signal.aborted;
    for (let tryCount = 0; ; tryCount += 1) {
      try {
        return await settle();
      } catch (thrown) {
        const error = asPlatformError(thrown);
        const pauseMs = PAUSES_MS[tryCount] ?? (isEnding ? null : LAST_PAUSE_MS);
        if (!error.facts.retryable || pauseMs === null) throw error;
        log.warn("an outcome could not be recorded yet", { code: error.code, pauseMs });
        await clock.sleep(pauseMs, isEnding ? undefined : signal);
        // A gate that ends tries a few times more, whatever was tried before.
        if (!isEnding && signal.aborted) [isEnding, tryCount] = [true, -1];
      }
    }
  }
}
