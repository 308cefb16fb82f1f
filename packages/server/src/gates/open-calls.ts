/**
 * The calls a gate has outside right now. Whoever learns that a run may no longer act cuts them here: a bell for a
 * cancel or a takeover, and the gate's own look at the slots of open calls, once a second, for when no bell rang.
 */
import { PlatformError, type ErrorCode, type RunId } from "@signalbox/contract";
import type { Clock, GateRecord, SlotView } from "@signalbox/core";

export interface OpenCall {
  readonly tokenHash: string;
  readonly conversationId: string;
  readonly runId: RunId | null;
  readonly generation: number;
  /**
   * It acts on the world, so its outcome is worth more than its end: a change of owner leaves it alone, and only a
   * cancel of its run, or the end of this process, cuts it.
   */
  readonly mustBeKnown?: boolean;
  /** Ends the call's traffic with the outside. Called once; must not throw. */
  cut(code: ErrorCode): void;
}

export interface OpenCallsOptions {
  readonly record: Pick<GateRecord, "slot" | "cancelledRuns">;
  readonly clock: Clock;
  readonly recheckEveryMs: number;
}

const ORDERLY_END_MS = 1_000;
/** Slots looked at together, so that many open streams do not queue up in the database pool at once. */
const RECHECKED_TOGETHER = 16;

export class OpenCalls implements AsyncDisposable {
  readonly #options: OpenCallsOptions;
  readonly #calls = new Set<OpenCall>();
  readonly #stop = new AbortController();
  #watching: Promise<void> | null = null;

  constructor(options: OpenCallsOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#calls.size;
  }

  add(call: OpenCall): void {
    this.#calls.add(call);
    this.#watching ??= this.#watch();
  }

  remove(call: OpenCall): void {
    this.#calls.delete(call);
  }

  /** Cuts every call of a run. */
  cutRun(runId: string, code: ErrorCode): void {
    this.#cut((call) => call.runId === runId, code);
  }

  /** Cuts the calls of a conversation that were opened under an earlier generation. */
  cutBefore(conversationId: string, generation: number): void {
    this.#cut(
      (call) => isOwners(call) && call.conversationId === conversationId && call.generation < generation,
      "stale_generation",
    );
  }

  /** Looks at the record now and not at the next second: an engine let go of a call, perhaps because of a cancel. */
  async look(): Promise<void> {
    await Promise.all([this.#cutStale(), this.#cutCancelled()]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    this.#cut(() => true, "shutting_down");
    await this.#watching;
  }

  #cut(which: (call: OpenCall) => boolean, code: ErrorCode): void {
    for (const call of [...this.#calls].filter(which)) {
      this.#calls.delete(call);
      call.cut(code);
    }
  }

  async #watch(): Promise<void> {
    const { clock, recheckEveryMs } = this.#options;
    while (this.#calls.size > 0 && (await clock.sleep(recheckEveryMs, this.#stop.signal)) === "elapsed") {
      await this.look();
    }
    // In the same turn as the last look at the set: a call added after it starts a new watch.
    this.#watching = null;
  }

  async #cutStale(): Promise<void> {
    const hashes = [...new Set([...this.#calls].filter(isOwners).map((call) => call.tokenHash))];
    for (let from = 0; from < hashes.length; from += RECHECKED_TOGETHER) {
      await Promise.all(hashes.slice(from, from + RECHECKED_TOGETHER).map((hash) => this.#recheck(hash)));
    }
  }

  /**
   * What must be known is cut as soon as a cancel is marked. The owner's own calls get a moment in which their engine
   * ends them in order; after it nothing of a run that is to end goes on, whoever still listens.
   */
  async #cutCancelled(): Promise<void> {
    await Promise.all([
      this.#cutCancelledOf((call) => !isOwners(call), 0),
      this.#cutCancelledOf(isOwners, ORDERLY_END_MS),
    ]);
  }

  async #cutCancelledOf(which: (call: OpenCall) => boolean, forMs: number): Promise<void> {
    const runIds = [...new Set([...this.#calls].filter(which).flatMap((call) => call.runId ?? []))];
    if (runIds.length === 0) return;
    // As below: a record that cannot be read is no reason to cut.
    const cancelled = new Set<RunId | null>(await this.#options.record.cancelledRuns(runIds, forMs).catch(() => []));
    this.#cut((call) => which(call) && cancelled.has(call.runId), "run_cancelled");
  }

  async #recheck(tokenHash: string): Promise<void> {
    let run: SlotView["run"];
    try {
      run = (await this.#options.record.slot(tokenHash)).run;
    } catch (thrown) {
      // A record that cannot be read is no reason to cut: nothing new is authorised meanwhile.
      if (!(thrown instanceof PlatformError) || thrown.facts.status !== 410) return;
      run = null;
    }
    this.#cut(
      (call) =>
        isOwners(call) &&
        call.tokenHash === tokenHash &&
        (run === null || call.runId !== run.runId || call.generation !== run.generation),
      "stale_generation",
    );
  }
}

/** Whether the call ends with its owner. */
function isOwners(call: OpenCall): boolean {
  return call.mustBeKnown !== true;
}
