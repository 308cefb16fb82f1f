/** What may go wrong, and when. Decided by the seed at every port call, so that death can come at any of them. */
import type { Seeded } from "./seeded.ts";

/**
 * `crash_before`: the process dies and the call was never sent. `crash_sent`: it dies, the call still arrives.
 * `crash_after`: the call is done, its reply finds nobody. `lost_reply`: done, but answered with an error.
 * `twice`: the call arrives twice. `stall`: the process stands still once it has sent it.
 */
export type Fate = "none" | "crash_before" | "crash_sent" | "crash_after" | "lost_reply" | "twice" | "stall";

export interface CallSite {
  /** Number of the call within the whole history. */
  readonly index: number;
  readonly call: string;
  readonly nowMs: number;
}

export interface Faults {
  fateOf(site: CallSite): Fate;
  /** How long a message travels. */
  delayMs(): number;
  /** How long a stalled process stands still. */
  stallMs(): number;
  /** How long until a dead process or worker is started again. */
  restartMs(): number;
  dropsBell(): boolean;
  dropsDelta(): boolean;
  /** Whether a worker dies (or is cut off but goes on) at its next move. */
  workerFate(nowMs: number): "none" | "dies" | "cut_off";
  /** Whether the record can be reached. */
  isRecordDown(nowMs: number): boolean;
  /** Whether a step ignores its interruption. */
  ignoresInterrupt(): boolean;
  /** Whether a worker says that it cannot continue a transcript. */
  failsToContinue(): boolean;
}

export interface FaultRates {
  readonly untilMs: number;
  readonly perCall: number;
  readonly worker: number;
  readonly bell: number;
  readonly delta: number;
  readonly recordDown: boolean;
}

/** Calls that arrive a second time without harm; the others are never sent twice by an adapter. */
const REPEATABLE: ReadonlySet<string> = new Set([
  "admit",
  "request_cancel",
  "bind_slot",
  "append",
  "seal",
  "finish",
  "release",
  "open_hold",
  "decide_hold",
  "heartbeat",
  "sweep",
  "settle_model_call",
  "settle_tool_call",
  "append_transcript",
]);

const PROCESS_FATES: readonly Fate[] = [
  "crash_before",
  "crash_sent",
  "crash_after",
  "lost_reply",
  "lost_reply",
  "stall",
];

export function randomFaults(random: Seeded, rates: FaultRates): Faults {
  const downAtMs = rates.recordDown ? random.between(500, rates.untilMs) : Number.POSITIVE_INFINITY;
  const downForMs = random.between(200, 6_000);
  const rages = (nowMs: number): boolean => nowMs < rates.untilMs;
  return {
    fateOf({ call, nowMs }) {
      if (!rages(nowMs) || !random.chance(rates.perCall)) return "none";
      return REPEATABLE.has(call) && random.chance(0.3) ? "twice" : random.pick(PROCESS_FATES);
    },
    delayMs: () => (random.chance(0.03) ? random.between(20, 400) : random.between(1, 8)),
    stallMs: () => random.between(200, 14_000),
    restartMs: () => random.between(100, 3_000),
    dropsBell: () => random.chance(rates.bell),
    dropsDelta: () => random.chance(rates.delta),
    workerFate(nowMs) {
      if (!rages(nowMs) || !random.chance(rates.worker)) return "none";
      return random.chance(0.5) ? "dies" : "cut_off";
    },
    isRecordDown: (nowMs) => nowMs >= downAtMs && nowMs < downAtMs + downForMs,
    ignoresInterrupt: () => random.chance(0.2),
    failsToContinue: () => random.chance(0.05),
  };
}

/** One call, or every call of a name. */
export type PlannedFault =
  | { readonly index: number; readonly fate: Fate }
  | { readonly everyCall: string; readonly fate: Fate };

/** Nothing goes wrong but what is planned. */
export function plannedFault(random: Seeded, planned: PlannedFault | null): Faults {
  const isMeant = ({ index, call }: CallSite): boolean =>
    planned !== null && ("index" in planned ? planned.index === index : planned.everyCall === call);
  return {
    fateOf: (site) => (planned !== null && isMeant(site) ? planned.fate : "none"),
    delayMs: () => random.between(1, 8),
    stallMs: () => 12_000,
    restartMs: () => 500,
    dropsBell: () => false,
    dropsDelta: () => false,
    workerFate: () => "none",
    isRecordDown: () => false,
    ignoresInterrupt: () => false,
    failsToContinue: () => false,
  };
}
