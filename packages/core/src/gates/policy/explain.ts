/** Why a policy decides as it does about one call, and what would make it decide otherwise. */
import {
  APPROVE_MODES,
  EFFECT_CLASSES,
  type EffectClass,
  type PolicyCondition,
  type PolicyRule,
  type PolicyVerdict,
  type ToolVerdict,
} from "@signalbox/contract";
import { compilePolicy } from "./compile.ts";
import { compileCondition } from "./condition.ts";
import type { ToolDecision, ToolPolicy } from "./decision.ts";
import type { CallToJudge, RunFacts } from "./facts.ts";
import { judgeCall } from "./judge-batch.ts";
import { valueAt } from "./json-values.ts";
import { placeArguments } from "./provenance.ts";
import { selectsPrincipal, selectsTool } from "./selector.ts";
import { Situation } from "./situation.ts";

/** Whether a condition holds; `null` when it cannot be judged. */
export interface ConditionTrace {
  readonly kind: PolicyCondition["kind"];
  readonly holds: boolean | null;
  readonly of: readonly ConditionTrace[];
}

export interface RuleTrace {
  readonly id: string;
  readonly verdict: PolicyVerdict;
  /** Whether it is about this tool and this caller at all. */
  readonly isAbout: boolean;
  /** `null` when it cannot be judged; the call is then denied. */
  readonly matches: boolean | null;
  readonly when: ConditionTrace | null;
}

export interface Counterfactual {
  /** In words: what would have to be otherwise. */
  readonly what: string;
  readonly verdict: ToolVerdict;
}

export interface DecisionExplanation {
  readonly decision: ToolDecision;
  readonly rules: readonly RuleTrace[];
  readonly facts: {
    readonly effect: EffectClass;
    readonly hasSeenPrivate: boolean;
    readonly hasSeenUntrusted: boolean;
    readonly historyCount: number;
    readonly areSourcesCut: boolean;
  };
  readonly wouldChange: readonly Counterfactual[];
}

export function explainDecision(policy: ToolPolicy, call: CallToJudge, facts: RunFacts): DecisionExplanation {
  const situation = new Situation(call, facts);
  const decision = judgeCall(policy, call, facts);
  return {
    decision: decision.provenance.length > 0 ? decision : { ...decision, provenance: originsOf(call, facts) },
    rules: policy.document.rules.map((rule) => traceRule(rule, situation)),
    facts: {
      effect: situation.effect,
      hasSeenPrivate: situation.hasSeen("private"),
      hasSeenUntrusted: situation.hasSeen("untrusted"),
      historyCount: facts.history.length,
      areSourcesCut: facts.areSourcesCut,
    },
    wouldChange: counterfactuals({ policy, call, facts }, decision),
  };
}

function originsOf(call: CallToJudge, facts: RunFacts): ToolDecision["provenance"] {
  try {
    return placeArguments(call, facts).map(({ at, origin, tool, isDestination }) => ({
      at,
      origin,
      tool,
      isDestination,
    }));
  } catch {
    return [];
  }
}

function traceRule(rule: PolicyRule, situation: Situation): RuleTrace {
  const { call, facts, effect } = situation;
  const { id, verdict, when } = rule;
  const isAbout = selectsTool(rule.tools, { call, effect }) && selectsPrincipal(rule.principals, facts);
  const trace = isAbout && when !== undefined ? traceCondition(when, situation) : null;
  return { id, verdict, isAbout, matches: isAbout && (trace === null ? true : trace.holds), when: trace };
}

function traceCondition(condition: PolicyCondition, situation: Situation): ConditionTrace {
  const { kind } = condition;
  const inner = kind === "all" || kind === "any" ? condition.of : kind === "not" ? [condition.of] : [];
  return { kind, holds: holdsOf(condition, situation), of: inner.map((each) => traceCondition(each, situation)) };
}

function holdsOf(condition: PolicyCondition, situation: Situation): boolean | null {
  try {
    return compileCondition(condition, "")(situation);
  } catch {
    return null;
  }
}

interface Asked {
  readonly policy: ToolPolicy;
  readonly call: CallToJudge;
  readonly facts: RunFacts;
}

interface Variation extends Asked {
  readonly what: string;
}

const VARIED_ARGUMENTS_MAX = 50;

function counterfactuals(asked: Asked, decision: ToolDecision): readonly Counterfactual[] {
  const tried = [...ruleVariations(asked, decision), ...callVariations(asked), ...factVariations(asked, decision)];
  return tried.flatMap(({ what, policy, call, facts }) => {
    const { verdict } = judgeCall(policy, call, facts);
    return verdict === decision.verdict ? [] : [{ what, verdict }];
  });
}

/** Of several rules that give the same verdict none can be missed: only one that stands alone is worth trying without. */
function ruleVariations(asked: Asked, decision: ToolDecision): readonly Variation[] {
  const { document, id } = asked.policy;
  const [alone, ...others] = decision.rules;
  const rules = document.rules.filter((each) => each.id !== alone);
  if (alone === undefined || others.length > 0 || rules.length === document.rules.length) return [];
  return [{ ...asked, what: `without the rule ${alone}`, policy: compilePolicy({ ...document, rules }, id) }];
}

function callVariations(asked: Asked): readonly Variation[] {
  const { call } = asked;
  const classes = EFFECT_CLASSES.map((effect) => ({
    ...asked,
    what: `if the tool were classified as ${effect}`,
    call: { ...call, isClassified: true, tool: { ...call.tool, effect } },
  }));
  const modes = APPROVE_MODES.map((approve) => ({
    ...asked,
    what: `if the operator's word about asking were ${approve}`,
    call: { ...call, approve },
  }));
  return [...classes, ...modes];
}

function factVariations(asked: Asked, decision: ToolDecision): readonly Variation[] {
  const { call, facts } = asked;
  const places = new Set(decision.provenance.filter(({ origin }) => UNSAID.has(origin)).map(({ at }) => at));
  const said = [...places].slice(0, VARIED_ARGUMENTS_MAX).flatMap((at) => {
    const value = valueAt(call.arguments, at);
    return typeof value === "string" || typeof value === "number" ? [{ at, text: String(value) }] : [];
  });
  const variants = said.map(({ at, text }) => ({
    ...asked,
    what: `if the user had said the value of ${at}`,
    facts: withSaid(facts, text),
  }));
  const all = {
    ...asked,
    what: "if the user had said every value",
    facts: withSaid(facts, said.map(({ text }) => text).join("\n")),
  };
  const trusting = facts.sources.map((source) => ({ ...source, isTrusted: true }));
  return [
    ...variants,
    ...(said.length > 1 ? [all] : []),
    { ...asked, what: "if everything the run has read were vouched for", facts: { ...facts, sources: trusting } },
    { ...asked, what: "if it were the first call of its run", facts: { ...facts, history: [] } },
  ];
}

const UNSAID: ReadonlySet<string> = new Set(["tool", "passage", "model", "trusted_tool"]);

function withSaid(facts: RunFacts, text: string): RunFacts {
  const source = { kind: "user", tool: null, isTrusted: true, isPrivate: false, clearance: 0, text } as const;
  return { ...facts, sources: [...facts.sources, source] };
}
