/**
 * An ownership that does not give up at the first unanswered call: while the record cannot be reached, each write is
 * tried again, up to a bound, and no longer than this process may go on. Every write may be repeated: it is either
 * idempotent under its generation, or its second form is refused as stale.
 */
import { asPlatformError } from "@signalbox/contract";
import { backoffMs } from "../kernel/backoff.ts";
import type { Limits } from "../kernel/limits.ts";
import type { CancelSignal, Clock } from "../ports/clock.ts";
import type { Ownership } from "../ports/ownership-record.ts";
import type { Randomness } from "../ports/randomness.ts";

export interface Persistence {
  readonly clock: Clock;
  readonly randomness: Randomness;
  readonly limits: Limits;
  readonly halt: CancelSignal;
  /** The run goes on under another generation. */
  readonly onGeneration: (generation: number) => void;
}

export function persistentOwnership(ownership: Ownership, context: Persistence): Ownership {
  const again = <T>(work: () => Promise<T>): Promise<T> => persistently(work, context);
  return {
    claim: ownership.claim,
    bindSlot: (slot) => again(() => ownership.bindSlot(slot)),
    append: (events, turnId) => again(() => ownership.append(events, turnId)),
    async changeWorker(options) {
      const next = await again(() => ownership.changeWorker(options));
      context.onGeneration(next.claim.generation);
      return persistentOwnership(next, context);
    },
    takeOver: (options) => again(() => ownership.takeOver(options)),
    dropTail: () => again(() => ownership.dropTail()),
    seal: (conclusion) => again(() => ownership.seal(conclusion)),
    finish: (finalization) => again(() => ownership.finish(finalization)),
    suspend: () => again(() => ownership.suspend()),
    takeIn: (messageId) => again(() => ownership.takeIn(messageId)),
    release: () => again(() => ownership.release()),
    history: (limit) => again(() => ownership.history(limit)),
  };
}

async function persistently<T>(work: () => Promise<T>, context: Persistence): Promise<T> {
  const { clock, randomness, limits, halt } = context;
  for (let failureCount = 1; ; failureCount += 1) {
    try {
      return await work();
    } catch (thrown) {
      const unanswered = asPlatformError(thrown).code === "database_unavailable";
      if (!unanswered || halt.aborted || failureCount >= limits.recordRetryCount) {
        throw thrown;
      }
    }
    const { recordRetryMs: baseMs, recordRetryCapMs: capMs } = limits;
    await clock.sleep(backoffMs(failureCount, { baseMs, capMs, fraction: randomness.fraction() }), halt);
  }
}
