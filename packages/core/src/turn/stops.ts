/**
 * Everything that can stop a turn from outside, in one place. The first cause wins: it interrupts the step, and after a
 * bounded wait the turn goes on without what has not come back by then.
 */
import type { Limits } from "../kernel/limits.ts";
import type { Cancellation, CancelSignal, Clock } from "../ports/clock.ts";

/** `lost`: the record said that this generation is over. */
export type StopCause = "cancelled" | "timed_out" | "halted" | "lost";

/** Thrown where a turn was waiting when its patience ended. Never leaves this folder. */
export class TurnStopped extends Error {
  override readonly name = "TurnStopped";
}

export interface Stops extends AsyncDisposable {
  readonly cause: StopCause | null;
  /** Aborts with the first cause. */
  readonly interrupt: CancelSignal;
  stop(cause: StopCause): void;
  /** The result of `work`, or `TurnStopped` when the turn was stopped and the wait for `work` is over. */
  patiently<T>(work: Promise<T>): Promise<T>;
}

export interface StopOptions {
  readonly clock: Clock;
  readonly cancellation: Cancellation;
  readonly limits: Limits;
  readonly cancel: CancelSignal;
  readonly halt: CancelSignal;
  readonly wallClockLeftMs: number;
}

export function createStops(options: StopOptions): Stops {
  const { clock, cancellation, limits, cancel, halt } = options;
  const interrupt = cancellation.source();
  const disposed = cancellation.source();
  const timers: Promise<unknown>[] = [];
  const overdue = Promise.withResolvers<never>();
  // Whoever waits sees the rejection; when nobody does, it is no news.
  overdue.promise.catch(() => undefined);
  let cause: StopCause | null = null;

  const stop = (why: StopCause): void => {
    const atOnce = why === "halted" || why === "lost";
    if (cause !== null && !atOnce) {
      return;
    }
    cause = why;
    interrupt.abort(why);
    if (atOnce) {
      overdue.reject(new TurnStopped(why));
    } else {
      timers.push(expire(limits.interruptWaitMs, () => overdue.reject(new TurnStopped(why))));
    }
  };
  const expire = async (afterMs: number, then: () => void): Promise<void> => {
    if ((await clock.sleep(afterMs, disposed.signal)) === "elapsed") then();
  };
  const onCancel = (): void => stop("cancelled");
  const onHalt = (): void => stop("halted");
  cancel.addEventListener("abort", onCancel, { once: true });
  halt.addEventListener("abort", onHalt, { once: true });
  timers.push(expire(Math.max(options.wallClockLeftMs, 0), () => stop("timed_out")));
  if (halt.aborted) onHalt();
  if (cancel.aborted) onCancel();

  return {
    get cause() {
      return cause;
    },
    interrupt: interrupt.signal,
    stop,
    patiently: (work) => Promise.race([work, overdue.promise]),
    async [Symbol.asyncDispose]() {
      cancel.removeEventListener("abort", onCancel);
      halt.removeEventListener("abort", onHalt);
      disposed.abort();
      await Promise.all(timers);
    },
  };
}
