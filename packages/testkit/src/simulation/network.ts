/**
 * Carries calls between lives: a port call of a process to the record, a call of a worker to a gate. A request that was
 * sent arrives even if its sender has died meanwhile; a reply reaches only who still lives.
 */
import { PlatformError } from "@signalbox/contract";
import type { Faults } from "./faults.ts";
import type { Tell } from "./history.ts";
import type { Life, Scheduler } from "./scheduler.ts";

export interface NetworkOptions {
  readonly scheduler: Scheduler;
  readonly faults: Faults;
  readonly crash: (life: Life) => void;
  readonly tell: Tell;
}

export class Network {
  readonly #options: NetworkOptions;
  #callCount = 0;

  constructor(options: NetworkOptions) {
    this.#options = options;
  }

  get callCount(): number {
    return this.#callCount;
  }

  /** One call to the record: a scheduling point, and a place to die. */
  record<T>(life: Life, call: string, work: () => Promise<T>): Promise<T> {
    const { scheduler, faults, crash, tell } = this.#options;
    const index = this.#callCount;
    this.#callCount += 1;
    const fate = faults.fateOf({ index, call, nowMs: scheduler.nowMs });
    tell(life, () => (fate === "none" ? null : `call ${index} ${call}: ${fate}`));
    const reply = Promise.withResolvers<T>();
    if (fate === "crash_before") {
      crash(life);
      return reply.promise;
    }
    const answer = (settle: () => void): void => {
      if (fate === "crash_after") crash(life);
      const lost = fate === "lost_reply" ? () => reply.reject(new PlatformError("database_unavailable")) : settle;
      scheduler.after(faults.delayMs(), life, lost);
    };
    scheduler.after(faults.delayMs(), null, () => {
      if (faults.isRecordDown(scheduler.nowMs)) {
        answer(() => reply.reject(new PlatformError("database_unavailable")));
        return;
      }
      const done = work();
      if (fate === "twice") done.then(work, work).catch(() => undefined);
      done.then(
        (value) => answer(() => reply.resolve(value)),
        (thrown: unknown) => answer(() => reply.reject(thrown instanceof Error ? thrown : new Error(String(thrown)))),
      );
    });
    if (fate === "crash_sent") crash(life);
    if (fate === "stall") life.stalledUntilMs = scheduler.nowMs + faults.stallMs();
    return reply.promise;
  }

  /** A call from one life to another. Never answered when the other dies; refused when it is dead already. */
  between<T>(from: Life, to: Life, work: () => Promise<T>): Promise<T> {
    const { scheduler, faults } = this.#options;
    const reply = Promise.withResolvers<T>();
    const unreachable = (): void => reply.reject(new PlatformError("provider_unreachable"));
    scheduler.after(faults.delayMs(), null, () => {
      if (!to.alive) {
        scheduler.after(faults.delayMs(), from, unreachable);
        return;
      }
      scheduler.after(0, to, () => {
        work().then(
          (value) => scheduler.after(faults.delayMs(), from, () => reply.resolve(value)),
          (thrown: unknown) => {
            const error = thrown instanceof Error ? thrown : new Error(String(thrown));
            scheduler.after(faults.delayMs(), from, () => reply.reject(error));
          },
        );
      });
    });
    return reply.promise;
  }

  /** Something that is not answered, and may be overtaken on the way. */
  send(to: Life, arrive: () => void): void {
    this.#options.scheduler.after(this.#options.faults.delayMs(), to, arrive);
  }
}
