/** Which verbs a hold takes, and from whom. Pure. */
import type { Decision, HoldKind } from "@signalbox/contract";

interface HoldRules {
  /** Verbs that a caller may decide it with; empty where the platform itself decides. */
  readonly verbs: readonly Decision[];
  /** Told to whoever tries another verb. */
  readonly otherwise: string;
}

const ANSWERED = "This hold takes the decisions respond and reject.";

const RULES: Readonly<Record<HoldKind, HoldRules>> = {
  approval: {
    verbs: ["approve", "edit", "reject", "respond"],
    otherwise: "An approval takes the decisions approve, edit, reject and respond.",
  },
  input: { verbs: ["respond", "reject"], otherwise: ANSWERED },
  client_tool: { verbs: ["respond", "reject"], otherwise: ANSWERED },
  account: { verbs: ["respond", "reject"], otherwise: ANSWERED },
  budget: { verbs: ["approve", "reject"], otherwise: "This hold takes the decisions approve and reject." },
  newer_worker: { verbs: ["resume"], otherwise: "This hold takes the decision resume." },
  job: { verbs: [], otherwise: "This hold ends when its job does." },
  operator: { verbs: [], otherwise: "This hold ends when its pause is lifted." },
};

/** Why this hold does not take that verb, or `null` when it does. */
export function refusedVerb(kind: HoldKind, decision: Decision): string | null {
  const { verbs, otherwise } = RULES[kind];
  return verbs.includes(decision) ? null : otherwise;
}
