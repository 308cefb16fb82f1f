/**
 * Performs the turn of a claimed run: composes it, drives it on a worker, and says what it says. A lost worker is
 * replaced under a new generation, which goes on from what the old one left, or runs the turn again; what readers saw
 * and is no part of it any more is taken back. The end of a turn is a conclusion and no decision: finalization decides
 * what is true.
 */
import {
  asPlatformError,
  makeId,
  PlatformError,
  uuidV7Bytes,
  type ErrorCode,
  type Rung,
  type TurnId,
} from "@signalbox/contract";
import type { Limits } from "../kernel/limits.ts";
import type {
  ClosedItem,
  Conclusion,
  Inheritance,
  Ownership,
  Suspension,
  VisibleItem,
} from "../ports/ownership-record.ts";
import type { Seat, StepResult } from "../ports/worker.ts";
import { composeTurn, staticPrefix } from "./compose.ts";
import {
  concludeFailed,
  concludeResult,
  concludeStopped,
  gaveUp,
  isSessionLost,
  isSuspended,
  type Outcome,
} from "./conclude.ts";
import { Emitter } from "./emitter.ts";
import { recoveryOf, takeOver, without } from "./inheritance.ts";
import { CLIMB_DOWN_AFTER, inSession, ladder, takeSeat, type Highest } from "./session.ts";
import { steeringOf } from "./steering.ts";
import { runSteps } from "./steps.ts";
import { createStops, type Stops } from "./stops.ts";
import type { TurnContext } from "./turn-context.ts";

export type TurnEnd =
  | { readonly kind: "concluded"; readonly ownership: Ownership; readonly conclusion: Conclusion }
  /** Nothing was decided: this process may not go on, or found no place on a worker. The run can be given back. */
  | { readonly kind: "halted" | "no_worker"; readonly ownership: Ownership }
  /** The run waits for a hold; nobody owns it. */
  | { readonly kind: "suspended" };

/** Rejects with `stale_generation` when somebody else owns the conversation, and when the record does not answer. */
export async function performTurn(first: Ownership, context: TurnContext): Promise<TurnEnd> {
  let ownership = first;
  let shown: readonly VisibleItem[] = [];
  let highest: Highest = "repaired";
  for (;;) {
    await using attempt = new Attempt(ownership, context);
    const end = await attempt.run({ shownBefore: shown, highest });
    if (end === "suspended") {
      return { kind: end };
    }
    if (end === "halted" || end === "no_worker") {
      return { kind: end, ownership };
    }
    if (end !== "session_lost" && end !== "transcript_unfit") {
      return { kind: "concluded", ownership, conclusion: end };
    }
    const next = await changeWorker(ownership, context);
    if (next === null) {
      return { kind: "concluded", ownership, conclusion: await attempt.giveUp("retries_exhausted") };
    }
    shown = attempt.shown();
    if (end === "transcript_unfit") {
      highest = attempt.below();
    }
    ownership = next;
  }
}

/** Why the turn must not run (again), or `null`. */
function forbidden(inherited: Inheritance, attempt: number, limits: Limits): ErrorCode | null {
  if (inherited.outcomeUnknown) {
    return "outcome_unknown";
  }
  return attempt > limits.attemptCount ? "retries_exhausted" : null;
}

async function changeWorker(ownership: Ownership, { limits }: TurnContext): Promise<Ownership | null> {
  try {
    return await ownership.changeWorker({ attemptLimit: limits.attemptCount });
  } catch (thrown) {
    if (asPlatformError(thrown).code === "retries_exhausted") {
      return null;
    }
    throw thrown;
  }
}

/** `transcript_unfit`: the engine failed on what it continued from; it may do better on the history alone. */
type AttemptEnd = Conclusion | "halted" | "no_worker" | "suspended" | "session_lost" | "transcript_unfit";

interface AttemptStart {
  /** What readers may have seen from the attempt before, whether or not the record has it. */
  readonly shownBefore: readonly VisibleItem[];
  /** Not from a higher rung: an earlier attempt failed on it. */
  readonly highest: Highest;
}

/** One run of the turn on one worker, under one generation. */
class Attempt implements AsyncDisposable {
  readonly #ownership: Ownership;
  readonly #context: TurnContext;
  readonly #turnId: TurnId;
  readonly #stops: Stops;
  readonly #emitter: Emitter;
  #seat: Seat | null = null;
  #rung: Rung | null = null;
  /** Why the session must not stay, or `null` when it ended its step in order. */
  #unfit: string | null = "the turn did not end in order";

  constructor(ownership: Ownership, context: TurnContext) {
    const { ports, limits, cancel, halt } = context;
    const { claim } = ownership;
    this.#ownership = ownership;
    this.#context = context;
    this.#turnId = makeId("turn", uuidV7Bytes(ports.clock.nowMs(), ports.randomness.bytes(10)));
    const wallClockMs = Math.min(claim.snapshot.limits.wallClockMs, limits.runWallClockMs);
    this.#stops = createStops({
      ...ports,
      limits,
      cancel,
      halt,
      wallClockLeftMs: wallClockMs - (claim.nowMs - claim.startedAtMs),
    });
    const onRefused = (): void => this.#stops.stop("lost");
    this.#emitter = new Emitter({ ownership, turnId: this.#turnId, ports, limits, onRefused });
  }

  async run(start: AttemptStart): Promise<AttemptEnd> {
    const { claim } = this.#ownership;
    const { limits } = this.#context;
    try {
      if (claim.cancelRequested) {
        this.#stops.stop("cancelled");
      }
      // A transcript on which engines keep dying is worth less than the history: the last attempt does without it.
      const least = claim.attempt >= limits.attemptCount ? "rebuilt" : start.highest;
      // Messages that were taken in on the way are composed into the turn; what was left of it may lack them.
      const highest = least === "repaired" && claim.takenIn.length > 0 ? "native" : least;
      const inherited = await this.#takeOver(start.shownBefore, highest);
      const verdict = forbidden(inherited, claim.attempt, limits);
      if (verdict !== null) {
        return await this.giveUp(verdict);
      }
      const result = await this.#drive(inherited, highest);
      if (result.error?.code === "run_cancelled" || result.error?.code === "run_stopped") {
        // A gate heard of the cancel, or of a stop, before this process did.
        this.#stops.stop("cancelled");
      }
      if (isSuspended(result, this.#stops.cause)) {
        return "suspended";
      }
      if (gaveUp(result, this.#stops.cause)) {
        return "session_lost";
      }
      if (result.error !== null && this.#blamesTranscript(result.error.code)) {
        return "transcript_unfit";
      }
      this.#unfit = null;
      return await this.#conclude(concludeResult(result, this.#outcome()));
    } catch (thrown) {
      return await this.#endOf(thrown);
    }
  }

  /** Takes back what was shown: there is no answer, and there will be none. */
  async giveUp(code: ErrorCode): Promise<Conclusion> {
    this.#emitter.retract(this.#emitter.shown(), code);
    const { detail } = new PlatformError(code);
    return await this.#conclude(concludeFailed({ code, detail }, this.#outcome()));
  }

  shown(): readonly VisibleItem[] {
    return this.#emitter.shown();
  }

  /** The highest rung that is left when the one this attempt stood on does not hold. */
  below(): Highest {
    return this.#rung === "repaired" ? "native" : "rebuilt";
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#context.steering.attach(null);
    if (this.#seat !== null && this.#unfit !== null) {
      await this.#seat.terminate(this.#unfit);
    }
    this.#seat?.leave();
    await this.#emitter[Symbol.asyncDispose]();
    await this.#stops[Symbol.asyncDispose]();
  }

  /**
   * Takes back what readers saw and is no part of the turn any more. What was said to its end stays for now where there
   * is a transcript to find it in.
   */
  async #takeOver(shownBefore: readonly VisibleItem[], highest: Highest): Promise<Inheritance> {
    const { claim } = this.#ownership;
    let kept: readonly ClosedItem[] = [];
    try {
      const inherited = await takeOver(this.#ownership, highest, { context: this.#context, stops: this.#stops });
      kept = inherited.leaf === null ? [] : inherited.closedItems;
      return inherited;
    } finally {
      this.#emitter.retract(without([...claim.visibleItems, ...shownBefore], kept), claim.cause);
      this.#emitter.adopt(kept);
    }
  }

  async #drive(inherited: Inheritance, highest: Highest): Promise<StepResult> {
    const { claim } = this.#ownership;
    const context = this.#context;
    const stops = this.#stops;
    const { limits } = context;
    let begun = false;
    const seat = await takeSeat(claim, context, stops);
    this.#seat = seat;
    context.onSeated();
    const steering = steeringOf(seat, this.#ownership);
    context.steering.attach((messages) => begun && steering.offer(messages));
    const message = { runId: claim.runId, turnId: this.#turnId, continueReason: null };
    const recovery = recoveryOf(inherited.closedItems, context, claim.cause);
    const onBegun = (): void => {
      begun = true;
    };
    const steps = (rung: Rung): Promise<StepResult> => {
      this.#rung = rung;
      this.#sayComposed(rung);
      const first =
        rung === "repaired"
          ? { ...message, parts: [], recovery }
          : { ...message, ...composeTurn(claim, { turnId: this.#turnId, rung }, limits), recovery: null };
      const onHold = (): Promise<Suspension> => this.#suspend();
      return runSteps(first, { seat, emitter: this.#emitter, stops, limits, steering, onBegun, onHold });
    };
    const onFallen = async (rung: Rung): Promise<void> => {
      if (rung === "repaired") {
        this.#emitter.retract(inherited.closedItems, claim.cause);
        await this.#ownership.dropTail();
      }
    };
    const rungs = ladder(claim, { highest, tail: inherited.leaf });
    const use = { context, stops, rungs, tail: inherited.leaf, steps, hasBegun: () => begun, onFallen };
    return await inSession(seat, this.#ownership, use);
  }

  /** What was said so far is durable before nobody may write any more; calls that are outside come back first. */
  async #suspend(): Promise<Suspension> {
    const { ports, limits, halt } = this.#context;
    await this.#emitter.durable();
    for (;;) {
      const suspension = await this.#ownership.suspend();
      if (suspension !== "busy" || this.#stops.cause !== null) return suspension;
      await ports.clock.sleep(limits.suspendRetryMs, halt);
    }
  }

  /** An engine that fails by itself on a transcript may have failed on its own earlier state: it never poisons the rest. */
  #blamesTranscript(code: ErrorCode): boolean {
    const continues = this.#rung === "native" || this.#rung === "repaired";
    return this.#stops.cause === null && continues && CLIMB_DOWN_AFTER.has(code);
  }

  #sayComposed(rung: Rung): void {
    const { snapshot, snapshotHash } = this.#ownership.claim;
    const prefixHash = this.#context.ports.digest.sha256Hex(staticPrefix(snapshot));
    const missedTurnCount = rung === "native" ? this.#ownership.claim.missed.length : 0;
    this.#emitter.composed({ snapshotHash, prefixHash, rung, model: snapshot.model, missedTurnCount });
  }

  /** Closes what is open and makes it durable: after this the run can be sealed. */
  async #conclude(conclusion: Conclusion): Promise<Conclusion> {
    const { error } = conclusion;
    this.#emitter.closeOpen(error === null ? { as: "completed" } : { as: "retracted", cause: error.code });
    await this.#emitter.durable();
    return conclusion;
  }

  async #endOf(thrown: unknown): Promise<AttemptEnd> {
    const { cause } = this.#stops;
    if (cause === "halted") {
      return "halted";
    }
    if (cause === "cancelled" || cause === "timed_out") {
      return await this.#conclude(concludeStopped(this.#outcome()));
    }
    const { code, detail } = asPlatformError(thrown);
    if (code === "no_worker") {
      return "no_worker";
    }
    // Whether a refusal means that the generation is over, the change of worker will hear from the record.
    if (cause === "lost" || isSessionLost(code)) {
      return "session_lost";
    }
    if (this.#blamesTranscript(code)) {
      return "transcript_unfit";
    }
    this.#context.ports.log.error("the turn failed", thrown, { runId: this.#ownership.claim.runId, code });
    return await this.#conclude(concludeFailed({ code, detail }, this.#outcome()));
  }

  #outcome(): Outcome {
    return {
      claim: this.#ownership.claim,
      rung: this.#rung,
      cause: this.#stops.cause,
      saidText: this.#emitter.latestText(),
    };
  }
}
