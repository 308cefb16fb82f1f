/**
 * The states of a run and what moves it. Total: every state says what every event does, `null` where it
 * must not happen. Terminal states are final. Changing this table is changing the design.
 */
import type { RunState } from "@signalbox/contract";
import { assert } from "../kernel/assert.ts";

export const RUN_EVENTS = [
  /** The queue lets it in. */
  "admit",
  /** A supervisor becomes its owner. */
  "claim",
  /** Its owner died and another process owns it now; a change of worker is the same under one owner. */
  "take_over",
  /** Its owner gives it back. */
  "release",
  /** It waits for a hold and needs nobody. */
  "suspend",
  /** Its hold is decided. */
  "resume",
  /** The gates close for it. */
  "seal",
  "complete",
  "cancel",
  "fail",
  "roll_back",
  /** A steered message was consumed by the run it steered. */
  "merge",
] as const;
export type RunEvent = (typeof RUN_EVENTS)[number];

type Row = Readonly<Record<RunEvent, RunState | null>>;

const NOTHING: Row = {
  admit: null,
  claim: null,
  take_over: null,
  release: null,
  suspend: null,
  resume: null,
  seal: null,
  complete: null,
  cancel: null,
  fail: null,
  roll_back: null,
  merge: null,
};

/** Runs without an owner may end directly, in the transaction that decides it. */
const ENDS_DIRECTLY = { cancel: "cancelled", fail: "failed", roll_back: "rolled_back" } as const;

export const RUN_TRANSITIONS: Readonly<Record<RunState, Row>> = {
  queued: { ...NOTHING, ...ENDS_DIRECTLY, admit: "admitted", merge: "completed" },
  // What was decided is asked again when the store was put back: the run that was to go on with it waits once more.
  admitted: { ...NOTHING, ...ENDS_DIRECTLY, claim: "running", suspend: "suspended" },
  running: { ...NOTHING, take_over: "running", release: "admitted", suspend: "suspended", seal: "finalizing" },
  suspended: { ...NOTHING, ...ENDS_DIRECTLY, resume: "admitted" },
  finalizing: { ...NOTHING, ...ENDS_DIRECTLY, take_over: "finalizing", seal: "finalizing", complete: "completed" },
  completed: NOTHING,
  cancelled: NOTHING,
  failed: NOTHING,
  rolled_back: NOTHING,
};

/** The state after `event`, or `null` when it must not happen in this state. */
export function nextState(state: RunState, event: RunEvent): RunState | null {
  return RUN_TRANSITIONS[state][event];
}

/** The only way a run changes its state. */
export function transition(state: RunState, event: RunEvent): RunState {
  const next = nextState(state, event);
  assert(next !== null, `a run that is ${state} does not take ${event}`);
  return next;
}

/** At most one run of a conversation is in one of these. */
export const ACTIVE_STATES: readonly RunState[] = ["admitted", "running", "suspended", "finalizing"];
/** These carry owner and generation in the run's own row. */
export const OWNED_STATES: readonly RunState[] = ["running", "finalizing"];

export function isActive(state: RunState): boolean {
  return ACTIVE_STATES.includes(state);
}

export function isOwned(state: RunState): boolean {
  return OWNED_STATES.includes(state);
}
