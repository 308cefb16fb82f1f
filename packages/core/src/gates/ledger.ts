/** The tool ledger: what moves a call from proposal to outcome. Total; outcomes are final but for a new proposal, and an unknown one. */
import type { EffectClass, ToolCallState } from "@signalbox/contract";
import { isRepeatable } from "./effect.ts";

export const CALL_EVENTS = ["ask", "authorize", "execute", "succeed", "fail", "lose", "deny", "withdraw"] as const;
export type CallEvent = (typeof CALL_EVENTS)[number];

type Row = Readonly<Record<CallEvent, ToolCallState | null>>;

const NOTHING: Row = {
  ask: null,
  authorize: null,
  execute: null,
  succeed: null,
  fail: null,
  lose: null,
  deny: null,
  withdraw: null,
};

/** Until it executes, a call may be denied or withdrawn. */
const NOT_YET = { deny: "denied", withdraw: "withdrawn" } as const;

export const CALL_TRANSITIONS: Readonly<Record<ToolCallState, Row>> = {
  proposed: { ...NOTHING, ...NOT_YET, ask: "awaiting_approval", authorize: "authorized", execute: "executing" },
  awaiting_approval: { ...NOTHING, ...NOT_YET, authorize: "authorized" },
  authorized: { ...NOTHING, ...NOT_YET, execute: "executing" },
  executing: { ...NOTHING, succeed: "succeeded", fail: "failed", lose: "unknown" },
  succeeded: NOTHING,
  failed: NOTHING,
  // A person who has looked settles it: it was carried out, it failed, it was never made.
  unknown: { ...NOTHING, succeed: "succeeded", fail: "failed", withdraw: "withdrawn" },
  denied: NOTHING,
  withdrawn: NOTHING,
};

/** Whether it may still be made, denied or withdrawn. */
export function isPendingCall(state: ToolCallState): boolean {
  return CALL_TRANSITIONS[state].withdraw !== null && CALL_TRANSITIONS[state].deny !== null;
}

export function nextCallState(state: ToolCallState, event: CallEvent): ToolCallState | null {
  return CALL_TRANSITIONS[state][event];
}

/**
 * A turn that runs again proposes a call under an id the ledger already has, with the same arguments. `propose`: it
 * starts over. `keep`: its outcome stands and is replayed.
 */
export function proposedAgain(call: {
  readonly state: ToolCallState;
  readonly effect: EffectClass;
}): "propose" | "keep" {
  return ON_PROPOSAL[call.state](call.effect);
}

const again = (): "propose" => "propose";
const stands = (): "keep" => "keep";

const ON_PROPOSAL: Readonly<Record<ToolCallState, (effect: EffectClass) => "propose" | "keep">> = {
  proposed: again,
  awaiting_approval: stands,
  authorized: stands,
  executing: stands,
  succeeded: stands,
  failed: again,
  unknown: (effect) => (isRepeatable(effect) ? "propose" : "keep"),
  denied: stands,
  withdrawn: again,
};
