/** A background loop: it has a name, waits a bounded time between its steps, can be woken, and can be waited for. */
import { backoffMs } from "../kernel/backoff.ts";
import type { Limits } from "../kernel/limits.ts";
import type { Cancellation, CancelSource, Clock } from "../ports/clock.ts";
import type { Randomness } from "../ports/randomness.ts";
import type { Log } from "../ports/telemetry.ts";

export interface LoopPorts {
  readonly clock: Clock;
  readonly cancellation: Cancellation;
  readonly randomness: Randomness;
  readonly log: Log;
}

export interface LoopOptions {
  readonly name: string;
  readonly ports: LoopPorts;
  readonly limits: Limits;
  /** Does one piece of work and says how long to wait before the next. A rejection is logged and tried again. */
  readonly step: () => Promise<number>;
}

export interface Loop {
  /** The next step begins now, or as soon as the present one is over. */
  wake(): void;
  /** No further step begins; resolves when the present one is over. */
  stop(): Promise<void>;
}

export function startLoop(options: LoopOptions): Loop {
  const { name, ports, limits, step } = options;
  let stopped = false;
  let woken = false;
  let pause: CancelSource | null = null;

  const waitAfterFailure = (failureCount: number, thrown: unknown): number => {
    ports.log.error(`${name} failed and is tried again`, thrown, { failureCount });
    const { loopRetryMs: baseMs, loopRetryCapMs: capMs } = limits;
    return backoffMs(failureCount, { baseMs, capMs, fraction: ports.randomness.fraction() });
  };
  const run = async (): Promise<void> => {
    let failureCount = 0;
    while (!stopped) {
      woken = false;
      let waitMs: number;
      try {
        waitMs = await step();
        failureCount = 0;
      } catch (thrown) {
        failureCount += 1;
        waitMs = waitAfterFailure(failureCount, thrown);
      }
      if (!stopped && !woken && waitMs > 0) {
        pause = ports.cancellation.source();
        await ports.clock.sleep(Math.min(waitMs, limits.loopWaitCapMs), pause.signal);
        pause = null;
      }
    }
  };
  const running = run();
  return {
    wake() {
      woken = true;
      pause?.abort();
    },
    async stop() {
      stopped = true;
      pause?.abort();
      await running;
    },
  };
}
