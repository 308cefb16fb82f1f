/**
 * From a claimed run to steps in a session: a place on a worker, the slot bound in the record, then the session on the
 * highest rung of the ladder that holds. The slot is bound first, because an engine that starts asks the gates at once.
 */
import { asPlatformError, type ErrorCode, type Rung } from "@signalbox/contract";
import { backoffMs } from "../kernel/backoff.ts";
import type { Claim, Ownership } from "../ports/ownership-record.ts";
import type { Seat } from "../ports/worker.ts";
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
  /** The transcript is not to be continued, however good it looks. */
  readonly rebuild: boolean;
  readonly steps: (rung: Rung) => Promise<T>;
  /** Whether a step has said anything: from then on its session was open. */
  readonly hasBegun: () => boolean;
}

/** Performs the steps in a session. A seat may open it only with the first one, whose failure is then the opening's. */
export async function inSession<T>(seat: Seat, ownership: Ownership, use: SessionUse<T>): Promise<T> {
  const { stops, steps } = use;
  await stops.patiently(ownership.bindSlot({ tokenHash: seat.slotTokenHash, workerId: seat.workerId }));
  const { claim } = ownership;
  // A transcript on which engines keep dying is worth less than the history: the last attempt does without it.
  const rung = firstRung(claim, use.rebuild || claim.attempt >= use.context.limits.attemptCount);
  try {
    await stops.patiently(openOn(rung, seat, { ownership, ...use }));
    return await steps(rung);
  } catch (thrown) {
    const canRebuild = rung === "native" && !use.hasBegun() && !(thrown instanceof TurnStopped);
    if (!canRebuild || !REBUILD_AFTER.has(asPlatformError(thrown).code)) {
      throw thrown;
    }
    use.context.ports.log.warn("the transcript cannot be continued; the session is rebuilt from the history", {
      runId: ownership.claim.runId,
      code: asPlatformError(thrown).code,
    });
  }
  await stops.patiently(openOn("rebuilt", seat, { ownership, ...use }));
  return await steps("rebuilt");
}

/** What a worker says when it cannot continue this transcript, though it could begin another. */
export const REBUILD_AFTER: ReadonlySet<ErrorCode> = new Set([
  "transcript_corrupt",
  "transcript_not_durable",
  "engine_failed",
]);

function firstRung(claim: Claim, rebuild: boolean): Rung {
  if (claim.leaf !== null && !rebuild) {
    return "native";
  }
  return claim.hasHistory ? "rebuilt" : "fresh";
}

async function openOn(
  rung: Rung,
  seat: Seat,
  open: { readonly ownership: Ownership; readonly context: TurnContext },
): Promise<void> {
  const { claim } = open.ownership;
  await seat.open({
    tenantId: claim.tenantId,
    conversationId: claim.conversationId,
    generation: claim.generation,
    snapshot: claim.snapshot,
    snapshotHash: claim.snapshotHash,
    rung,
    leaf: rung === "native" ? claim.leaf : null,
    history: rung === "rebuilt" ? await open.ownership.history(open.context.limits.historyCount) : [],
  });
}
