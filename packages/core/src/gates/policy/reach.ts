/**
 * Whether a policy can ever let a caller have a tool, whatever the arguments: what it cannot is not offered. Errs towards
 * yes; the call itself is judged with everything that is known then.
 */
import type { PolicyCondition } from "@signalbox/contract";
import type { ToolPolicy } from "./decision.ts";
import type { CallToJudge, RunFacts } from "./facts.ts";
import { guarded } from "./guard.ts";
import { selectsPrincipal, selectsTool } from "./selector.ts";
import { Situation } from "./situation.ts";

/** `null`: that depends on the call. */
type Truth = boolean | null;

export function isWithinReach(
  policy: ToolPolicy,
  tool: Pick<CallToJudge, "tool" | "approve" | "isClassified">,
  facts: RunFacts,
): boolean {
  const situation = new Situation({ ...tool, toolCallId: "", arguments: {} }, { ...facts, sources: [] });
  if (guarded(situation) !== null) return false;
  const { call, effect } = situation;
  const about = policy.document.rules.filter(
    (rule) => selectsTool(rule.tools, { call, effect }) && selectsPrincipal(rule.principals, facts),
  );
  const truths = about.map(({ verdict, when }) => ({
    verdict,
    truth: when === undefined ? true : truthOf(when, situation),
  }));
  return (
    !truths.some(({ verdict, truth }) => verdict === "forbid" && truth === true) &&
    truths.some(({ verdict, truth }) => verdict !== "forbid" && truth !== false)
  );
}

function truthOf(condition: PolicyCondition, situation: Situation): Truth {
  const { call, effect, facts } = situation;
  switch (condition.kind) {
    case "all":
      return allOf(condition.of.map((each) => truthOf(each, situation)));
    case "any":
      return negated(allOf(condition.of.map((each) => negated(truthOf(each, situation)))));
    case "not":
      return negated(truthOf(condition.of, situation));
    case "tool":
      return selectsTool(condition.is, { call, effect });
    case "principal":
      return selectsPrincipal(condition.is, facts);
    case "posture":
      return facts.posture === condition.is;
    case "seen":
      // What is not known of counts as seen.
      return facts.areSourcesCut ? true : null;
    case "argument":
    case "provenance":
    case "history":
      return null;
  }
}

function allOf(truths: readonly Truth[]): Truth {
  if (truths.includes(false)) return false;
  return truths.includes(null) ? null : true;
}

function negated(truth: Truth): Truth {
  return truth === null ? null : !truth;
}
