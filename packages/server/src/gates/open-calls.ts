/**
 * The calls a gate has outside right now. Whoever may not act any more is cut here. A bell for a cancel or a change of
 * owner says where to look, and once a second the gate looks by itself, for when no bell rang; what is cut is decided by
 * the record alone.
 */
import { PlatformError, type ErrorCode, type RunId } from "@signalbox/contract";
import type { Clock, GateRecord, SlotView } from "@signalbox/core";

export interface OpenCall {
  readonly tokenHash: string;
  readonly conversationId: string;
  readonly runId: RunId | null;
  readonly generation: number;
  /**
   * Its outcome is worth more than its end, to whoever owns the conversation by then: a change of owner leaves it alone,
   * and only a cancel of its run, or the end of this process, cuts it.
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

const ORDERLY_END_MS = 500;
/** The record compares times by its own clock; a look at the very moment would come too early. */
const AFTERWARDS_MS = 20;
/** Slots looked at together, so that many open streams do not queue up in the database pool at once. */
const RECHECKED_TOGETHER = 16;

export class OpenCalls implements AsyncDisposable {
  readonly #options: OpenCallsOptions;
  readonly #calls = new Set<OpenCall>();
  readonly #stop = new AbortController();
  readonly #looking = new Set<Promise<void>>();
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

  /** A bell for one conversation, or with `null` for any: looks now, and again when an orderly end is overdue. */
  hear(conversationId: string | null): void {
    const isMeant = (call: OpenCall): boolean => conversationId === null || call.conversationId === conversationId;
    if (this.#stop.signal.aborted || ![...this.#calls].some(isMeant)) return;
    const looking = this.#lookTwice(isMeant).finally(() => this.#looking.delete(looking));
    this.#looking.add(looking);
  }

  /** Looks at the record now and not at the next second: an engine let go of a call, perhaps because of a cancel. */
  async look(): Promise<void> {
    await this.#lookAt(() => true);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    this.#cut(() => true, "shutting_down");
    await Promise.all([this.#watching, ...this.#looking]);
  }

  async #lookTwice(isMeant: (call: OpenCall) => boolean): Promise<void> {
    await this.#lookAt(isMeant);
    if (![...this.#calls].some(isMeant)) return;
    const how = await this.#options.clock.sleep(ORDERLY_END_MS + AFTERWARDS_MS, this.#stop.signal);
    if (how === "elapsed") await this.#lookAt(isMeant);
  }

  async #lookAt(isMeant: (call: OpenCall) => boolean): Promise<void> {
    const looked = [...this.#calls].filter(isMeant);
    await Promise.all([this.#cutStale(looked), this.#cutCancelled(looked)]);
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

  async #cutStale(looked: readonly OpenCall[]): Promise<void> {
    const hashes = [...new Set(looked.filter(isOwners).map((call) => call.tokenHash))];
    for (let from = 0; from < hashes.length; from += RECHECKED_TOGETHER) {
      await Promise.all(hashes.slice(from, from + RECHECKED_TOGETHER).map((hash) => this.#recheck(hash)));
    }
  }

  /**
   * What must be known is cut as soon as a cancel is marked. The owner's own calls get a moment in which their engine
   * ends them in order; after it nothing of a run that is to end goes on, whoever still listens.
   */
  async #cutCancelled(looked: readonly OpenCall[]): Promise<void> {
    await Promise.all([
      this.#cutCancelledOf(
        looked.filter((call) => !isOwners(call)),
        0,
      ),
      this.#cutCancelledOf(looked.filter(isOwners), ORDERLY_END_MS),
    ]);
  }

  async #cutCancelledOf(calls: readonly OpenCall[], forMs: number): Promise<void> {
    const runIds = [...new Set(calls.flatMap((call) => call.runId ?? []))];
    if (runIds.length === 0) return;
    // As below: a record that cannot be read is no reason to cut.
    const cancelled = new Set<RunId | null>(await this.#options.record.cancelledRuns(runIds, forMs).catch(() => []));
    const asked = new Set(calls);
    this.#cut((call) => asked.has(call) && cancelled.has(call.runId), "run_cancelled");
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
