/**
 * What no rule can permit: reading above one's clearance, writing what is confidential to where it is less so, using a tool
 * of a unit one does not stand in. All of it is invisible until an operator gives a tool a clearance or a unit.
 */
import { isWithin } from "./selector.ts";
import type { Situation } from "./situation.ts";

export interface Guarded {
  readonly rule: string;
  readonly reason: string;
}

export function guarded(situation: Situation): Guarded | null {
  const { call, facts, effect } = situation;
  const { principal } = facts;
  if (call.tool.unit !== null && !isWithin(principal.units, call.tool.unit)) {
    return { rule: "guard.unit", reason: "This tool belongs to another part of the organisation." };
  }
  if (call.tool.clearance > principal.clearance) {
    return { rule: "guard.read-up", reason: "This tool needs a higher clearance." };
  }
  if (effect === "read") return null;
  const seen = facts.sources.find((source) => source.clearance > call.tool.clearance);
  return seen === undefined
    ? null
    : { rule: "guard.write-down", reason: "This run has read what is more confidential than where this call goes." };
}
