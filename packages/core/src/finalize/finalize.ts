/** Closes the gates for a run, waits for what is still out there, decides what is true, and lets the record have it. */
import { makeId, uuidV7Bytes, type RunId } from "@signalbox/contract";
import { backoffMs } from "../kernel/backoff.ts";
import type { Limits } from "../kernel/limits.ts";
import type { Clock } from "../ports/clock.ts";
import type { Conclusion, Ownership, Seal } from "../ports/ownership-record.ts";
import type { Randomness } from "../ports/randomness.ts";
import { judge } from "./judge.ts";

export interface FinalizeContext {
  readonly clock: Clock;
  readonly randomness: Randomness;
  readonly limits: Limits;
}

/** Resolves once the run has ended in the record. Rejects with `stale_generation` when somebody else owns it. */
export async function finalize(
  ownership: Ownership,
  conclusion: Conclusion,
  context: FinalizeContext,
): Promise<{ readonly nextRunId: RunId | null }> {
  const seal = await sealAndSettle(ownership, conclusion, context);
  const { clock, randomness } = context;
  const answerId = makeId("message", uuidV7Bytes(clock.nowMs(), randomness.bytes(10)));
  return await ownership.finish(judge({ claim: ownership.claim, conclusion, seal, answerId }));
}

/** A call that is open at a live gate is waited for, up to a bound: its outcome belongs to the run. */
async function sealAndSettle(ownership: Ownership, conclusion: Conclusion, context: FinalizeContext): Promise<Seal> {
  const { clock, randomness, limits } = context;
  const giveUpAtMs = clock.monotonicMs() + limits.openCallWaitMs;
  for (let pollCount = 1; ; pollCount += 1) {
    const seal = await ownership.seal(conclusion);
    const settled = seal.openModelCallCount === 0 && seal.openToolCallCount === 0;
    if (settled || clock.monotonicMs() >= giveUpAtMs) {
      return seal;
    }
    const { openCallPollMs: baseMs, openCallPollCapMs: capMs } = limits;
    await clock.sleep(backoffMs(pollCount, { baseMs, capMs, fraction: randomness.fraction() }));
  }
}
