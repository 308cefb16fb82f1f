/**
 * Intents that wait: while an operator's pause stands over a run, or somebody is asked about a call of the same message,
 * calls are kept at the gate, attached, for as long as patience lasts; then the run is suspended and needs nobody any more. Whichever commits first wins, the decision or
 * the suspension: the intent itself is asked again and says what holds.
 */
import { asPlatformError, isId, PlatformError } from "@signalbox/contract";
import {
  LIMITS,
  type Clock,
  type GateRecord,
  type HoldRecord,
  type KeptCall,
  type LiveSubscription,
} from "@signalbox/core";

export interface KeptCallsOptions {
  readonly record: GateRecord & HoldRecord;
  /** What is said about a conversation from now on: a decision rings. */
  readonly subscribe: (conversationId: string) => LiveSubscription;
  readonly clock: Clock;
  readonly patienceMs?: number;
  readonly pollMs?: number;
}

export interface KeptCalls extends Disposable {
  /** The record, with intents that wait. */
  readonly record: GateRecord;
}

export function createKeptCalls(options: KeptCallsOptions): KeptCalls {
  const { record } = options;
  const stopping = new AbortController();
  const patiently = <T>(intent: () => Promise<T>): Promise<T> => keep(intent, options, stopping.signal);
  return {
    record: {
      ...record,
      openModelCall: (intent) => patiently(() => record.openModelCall(intent)),
      openToolCall: (intent) => patiently(() => record.openToolCall(intent)),
      recordVerdicts: (verdicts) => patiently(() => record.recordVerdicts(verdicts)),
    },
    [Symbol.dispose]: () => stopping.abort("stopping"),
  };
}

async function keep<T>(intent: () => Promise<T>, options: KeptCallsOptions, stopping: AbortSignal): Promise<T> {
  for (;;) {
    try {
      return await intent();
    } catch (thrown) {
      const call = keptCallOf(thrown);
      if (call === null) throw thrown;
      if (await isOver(call, options, stopping)) continue;
      if (stopping.aborted) throw new PlatformError("shutting_down");
      // `busy`: another call of the run is outside, and this one is kept for as long again.
      if ((await options.record.suspend(call)) === "suspended") throw new PlatformError("run_suspended");
    }
  }
}

/** Whether the wait ended before patience did. */
async function isOver(call: KeptCall, options: KeptCallsOptions, stopping: AbortSignal): Promise<boolean> {
  const { record, clock, patienceMs = LIMITS.holdPatienceMs, pollMs = LIMITS.holdPollMs } = options;
  using subscription = options.subscribe(call.conversationId);
  const signals = subscription[Symbol.asyncIterator]();
  const giveUpAtMs = clock.monotonicMs() + patienceMs;
  let bell = signals.next();
  for (;;) {
    if (await record.isHoldOver(call)) return true;
    const leftMs = giveUpAtMs - clock.monotonicMs();
    if (leftMs <= 0 || stopping.aborted) return false;
    const waiting = new AbortController();
    const rung = bell.then(() => {
      waiting.abort("rung");
      return true;
    });
    const slept = clock.sleep(Math.min(pollMs, leftMs), AbortSignal.any([waiting.signal, stopping])).then(() => false);
    if (await Promise.race([rung, slept])) bell = signals.next();
  }
}

/** What an intent was refused for, when it can be waited for. */
function keptCallOf(thrown: unknown): KeptCall | null {
  const { code, extra } = asPlatformError(thrown);
  const { holdId, conversationId, generation } = extra;
  return code === "run_suspended" &&
    typeof holdId === "string" &&
    isId("hold", holdId) &&
    typeof conversationId === "string" &&
    typeof generation === "number"
    ? { holdId, conversationId, generation }
    : null;
}
