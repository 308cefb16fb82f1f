/**
 * From a claimed run to steps in a session: a place on a worker, the slot bound in the record, then the session on the
 * highest rung of the ladder that holds. The slot is bound first, because an engine that starts asks the gates at once.
 */
import { asPlatformError, PlatformError, type ErrorCode, type Rung } from "@signalbox/contract";
import { backoffMs } from "../kernel/backoff.ts";
import type { Claim, Ownership } from "../ports/ownership-record.ts";
import type { Seat } from "../ports/worker.ts";
import { seedOf } from "./past.ts";
import { TurnStopped, type Stops } from "./stops.ts";
import type { TurnContext } from "./turn-context.ts";

/** Rejects with `no_worker` when no worker had room for as long as a claimed run may wait. */
export async function takeSeat(claim: Claim, context: TurnContext, stops: Stops): Promise<Seat> {
  const { pool, clock, randomness } = context.ports;
  const { seatRetryMs: baseMs, seatRetryCapMs: capMs, seatWaitMs } = context.limits;
  const giveUpAtMs = clock.monotonicMs() + seatWaitMs;
  for (let failureCount = 1; ; failureCount += 1) {
    if (stops.cause !== null) {
      throw new TurnStopped(stops.cause);
    }
    const taking = pool.seat(claim.conversationId, claim.snapshot.runtime);
    try {
      return await stops.patiently(taking);
    } catch (thrown) {
      if (thrown instanceof TurnStopped) {
        // A place that is given after all is left at once.
        taking.then(
          (seat) => seat.leave(),
          () => undefined,
        );
        throw thrown;
      }
      if (asPlatformError(thrown).code !== "no_worker" || clock.monotonicMs() >= giveUpAtMs) {
        throw thrown;
      }
    }
    await clock.sleep(backoffMs(failureCount, { baseMs, capMs, fraction: randomness.fraction() }), stops.interrupt);
  }
}

export interface SessionUse<T> {
  readonly context: TurnContext;
  readonly stops: Stops;
  /** The rungs that may be tried, the highest first. */
  readonly rungs: readonly Rung[];
  /** End of the tail that was adopted, for the rung `repaired`. */
  readonly tail: string | null;
  readonly steps: (rung: Rung) => Promise<T>;
  /** Whether a step has said anything: from then on its session was open. */
  readonly hasBegun: () => boolean;
  /** Called when a rung did not hold, before the next one is tried. */
  readonly onFallen: (rung: Rung) => Promise<void>;
}

/**
 * Performs the steps in a session, on the highest rung that holds. A seat may open it only with the first step, whose
 * failure is then the opening's.
 */
export async function inSession<T>(seat: Seat, ownership: Ownership, use: SessionUse<T>): Promise<T> {
  const { stops, steps, rungs } = use;
  await stops.patiently(ownership.bindSlot({ tokenHash: seat.slotTokenHash, workerId: seat.workerId }));
  for (const [place, rung] of rungs.entries()) {
    try {
      await stops.patiently(openOn(rung, seat, { ownership, ...use }));
      return await steps(rung);
    } catch (thrown) {
      const isLast = place === rungs.length - 1;
      const mayFall = !isLast && !use.hasBegun() && !(thrown instanceof TurnStopped);
      if (!mayFall || !CLIMB_DOWN_AFTER.has(asPlatformError(thrown).code)) {
        throw thrown;
      }
      use.context.ports.log.warn("the transcript cannot be continued here; the next rung is tried", {
        runId: ownership.claim.runId,
        rung,
        code: asPlatformError(thrown).code,
      });
      await stops.patiently(use.onFallen(rung));
    }
  }
  throw new PlatformError("internal", undefined, { cause: new Error("a turn without a rung") });
}

/** What a worker says when it cannot continue this transcript, though it could begin another. */
export const CLIMB_DOWN_AFTER: ReadonlySet<ErrorCode> = new Set([
  "transcript_corrupt",
  "transcript_not_durable",
  "engine_failed",
]);

/** The highest rung a turn may begin on, apart from what the claim allows. */
export type Highest = "repaired" | "native" | "rebuilt";

/**
 * The rungs of this turn: what an earlier generation left of it, else the transcript up to its last finalized entry,
 * else the history. Where nothing was ever said there is nothing to rebuild: a transcript is about something, also when no
 * answer came of it.
 */
export function ladder(
  claim: Claim,
  from: { readonly highest: Highest; readonly tail: string | null },
): readonly Rung[] {
  const base: Rung = claim.hasHistory || claim.leaf !== null ? "rebuilt" : "fresh";
  if (from.highest === "rebuilt") {
    return [base];
  }
  const again: readonly Rung[] = claim.leaf === null ? [base] : ["native", base];
  return from.tail === null || from.highest === "native" ? again : ["repaired", ...again];
}

async function openOn(
  rung: Rung,
  seat: Seat,
  open: { readonly ownership: Ownership; readonly context: TurnContext; readonly tail: string | null },
): Promise<void> {
  const { claim } = open.ownership;
  await seat.open({
    tenantId: claim.tenantId,
    conversationId: claim.conversationId,
    generation: claim.generation,
    snapshot: claim.snapshot,
    snapshotHash: claim.snapshotHash,
    rung,
    leaf: rung === "repaired" ? open.tail : rung === "native" ? claim.leaf : null,
    finalized: rung === "repaired" ? claim.leaf : null,
    history: rung === "rebuilt" ? seedOf(await open.ownership.history(open.context.limits.historyCount)) : [],
  });
}
