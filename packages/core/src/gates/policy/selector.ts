/** Which tools and callers a rule is about. */
import type { EffectClass, PrincipalSelector, ToolSelector } from "@signalbox/contract";
import type { CallToJudge, RunFacts } from "./facts.ts";

export interface ToolFacts {
  readonly call: Pick<CallToJudge, "tool" | "approve" | "isClassified">;
  readonly effect: EffectClass;
}

/** Depends on the tool alone, so it is worked out once for each. */
export function selectsTool(selector: ToolSelector | undefined, { call, effect }: ToolFacts): boolean {
  if (selector === undefined) return true;
  const { effects, servers, names, approve, isClassified } = selector;
  return (
    (effects?.includes(effect) ?? true) &&
    (servers?.includes(call.tool.server) ?? true) &&
    (names?.includes(call.tool.name) ?? true) &&
    (approve?.includes(call.approve) ?? true) &&
    (isClassified === undefined || isClassified === call.isClassified)
  );
}

export function selectsPrincipal(selector: PrincipalSelector | undefined, facts: RunFacts): boolean {
  if (selector === undefined) return true;
  const { principal, agent, runtime } = facts;
  const { users, roles, units, agents, runtimes, clearanceAtLeast } = selector;
  return (
    (users === undefined || (principal.user !== null && users.includes(principal.user))) &&
    (roles?.some((role) => principal.roles.includes(role)) ?? true) &&
    (units?.some((unit) => isWithin(principal.units, unit)) ?? true) &&
    (agents?.includes(agent) ?? true) &&
    (runtimes?.includes(runtime) ?? true) &&
    (clearanceAtLeast === undefined || principal.clearance >= clearanceAtLeast)
  );
}

/** Whether one of these units is another one, or stands below it. */
export function isWithin(units: readonly string[], above: string): boolean {
  return units.some((unit) => unit === above || unit.startsWith(`${above}/`));
}
