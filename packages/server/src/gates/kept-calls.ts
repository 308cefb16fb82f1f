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

/** The record, with intents that wait. */
export interface KeptRecord extends Omit<GateRecord, "openToolCall"> {
  /** `waited`: what the call was waiting for is over; what was looked at before it is looked at again. */
  openToolCall(
    ...intent: Parameters<GateRecord["openToolCall"]>
  ): Promise<Awaited<ReturnType<GateRecord["openToolCall"]>> | { readonly kind: "waited" }>;
}

export interface KeptCalls extends Disposable {
  readonly record: KeptRecord;
}

export function createKeptCalls(options: KeptCallsOptions): KeptCalls {
  const { record } = options;
  const stopping = new AbortController();
  const patiently = <T>(intent: () => Promise<T>): Promise<T> => keep(intent, options, stopping.signal);
  return {
    record: {
      ...record,
      openModelCall: (intent) => patiently(() => record.openModelCall(intent)),
      openToolCall: async (intent) =>
        (await waitedFor(() => record.openToolCall(intent), options, stopping.signal)) ?? { kind: "waited" },
      recordVerdicts: (verdicts) => patiently(() => record.recordVerdicts(verdicts)),
    },
    [Symbol.dispose]: () => stopping.abort("stopping"),
  };
}

async function keep<T>(intent: () => Promise<T>, options: KeptCallsOptions, stopping: AbortSignal): Promise<T> {
  for (;;) {
    const answer = await waitedFor(intent, options, stopping);
    if (answer !== null) return answer;
  }
}

/** What the intent answers, or `null` once what it has to wait for is over. */
async function waitedFor<T>(
  intent: () => Promise<T>,
  options: KeptCallsOptions,
  stopping: AbortSignal,
): Promise<T | null> {
  let call: KeptCall | null;
  try {
    return await intent();
  } catch (thrown) {
    call = keptCallOf(thrown);
    if (call === null) throw thrown;
  }
  for (;;) {
    if (await isOver(call, options, stopping)) return null;
    if (stopping.aborted) throw new PlatformError("shutting_down");
    const suspension = await options.record.suspend(call);
    if (suspension === "suspended") throw new PlatformError("run_suspended");
    if (suspension === "go_on") return null;
    // `busy`: another call of the run is outside, and this one is kept for as long again.
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
