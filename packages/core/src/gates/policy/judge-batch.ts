/** The calls of one message, judged together and in order, each as if those before it were under way. */
import { TOOL_VERDICTS } from "@signalbox/contract";
import { effectOf, undecided, type ToolDecision, type ToolPolicy } from "./decision.ts";
import type { CallToJudge, PastCall, RunFacts } from "./facts.ts";

/**
 * One decision for each call. Never throws, and whatever goes wrong is a denial with `policy_unavailable`: a policy that
 * throws, or that answers what is no decision, has decided nothing.
 */
export function judgeBatch(
  policy: ToolPolicy,
  calls: readonly CallToJudge[],
  facts: RunFacts,
): readonly ToolDecision[] {
  const history: PastCall[] = [...facts.history];
  const within: RunFacts = { ...facts, history };
  return calls.map((call) => {
    const decision = judgeCall(policy, call, within);
    if (decision.verdict !== "deny") history.push(asPast(call, decision, facts.nowMs));
    return decision;
  });
}

/** One call, as `judgeBatch` judges it. */
export function judgeCall(policy: ToolPolicy, call: CallToJudge, facts: RunFacts): ToolDecision {
  try {
    const decision: unknown = policy.decide(call, facts);
    return isDecision(decision) ? decision : undecided();
  } catch {
    return undecided();
  }
}

function asPast(call: CallToJudge, decision: ToolDecision, nowMs: number): PastCall {
  const { name, server, tool } = call.tool;
  const state = decision.verdict === "ask" ? "awaiting_approval" : "authorized";
  return { name, server, tool, effect: effectOf(call), state, arguments: call.arguments, atMs: nowMs };
}

function isDecision(given: unknown): given is ToolDecision {
  if (typeof given !== "object" || given === null) return false;
  // Whether it has the members of a decision is what is looked at.
  const { verdict, code, reason, rules, conditions, provenance } = given as Partial<ToolDecision>;
  return (
    TOOL_VERDICTS.some((each) => each === verdict) &&
    (verdict === "deny") === (typeof code === "string") &&
    typeof reason === "string" &&
    [rules, conditions, provenance].every((each) => Array.isArray(each))
  );
}
