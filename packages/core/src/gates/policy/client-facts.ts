/**
 * What a call of a client is judged by, that is no run of ours: who asks, and the calls it made before. What its model has
 * read, and what its user wrote, is not known here; so every value counts as taken from a text that nobody vouches for.
 */
import type { Actor, PolicyCondition, PolicyDocument, Posture } from "@signalbox/contract";
import { DAY_MS } from "../../kernel/units.ts";
import type { PastCall, RunFacts } from "./facts.ts";

/** What rules name as the runtime of whoever is no engine of ours. */
const CLIENT_RUNTIME = "mcp_client";

/** How far back the calls of a client count as those of its run, unless a rule looks further. */
const HISTORY_MS = DAY_MS;

export interface ClientFactParts {
  readonly tenantId: string;
  readonly actor: Actor;
  readonly posture: Posture;
  readonly history: readonly PastCall[];
  readonly nowMs: number;
}

export function assembleClientFacts({ tenantId, actor, posture, history, nowMs }: ClientFactParts): RunFacts {
  const { user, roles, units } = actor;
  return {
    principal: { tenantId, user, roles, units, clearance: 0 },
    agent: "",
    runtime: CLIENT_RUNTIME,
    posture,
    sources: [],
    areSourcesCut: true,
    history,
    nowMs,
  };
}

/** How far back a policy looks at a client's calls. */
export function historyWindowMs({ rules }: PolicyDocument): number {
  return Math.max(HISTORY_MS, ...rules.flatMap(({ when }) => (when === undefined ? [] : windowsOf(when))));
}

function windowsOf(condition: PolicyCondition): readonly number[] {
  switch (condition.kind) {
    case "all":
    case "any":
      return condition.of.flatMap(windowsOf);
    case "not":
      return windowsOf(condition.of);
    case "history":
      return condition.calls.withinMs === undefined ? [] : [condition.calls.withinMs];
    default:
      return [];
  }
}
