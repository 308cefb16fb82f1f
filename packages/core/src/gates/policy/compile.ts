/**
 * A policy, compiled. Which rules are about a tool is worked out once for each tool, so that of hundreds of rules a call
 * asks the few that are about it. The order of rules never matters.
 */
import {
  policyDocumentSchema,
  PlatformError,
  type PolicyDocument,
  type PolicyRule,
  type PolicyVerdict,
} from "@signalbox/contract";
import { mergeConditions } from "./obligation.ts";
import { compileCondition, invalid, needsOfCondition, type Holds } from "./condition.ts";
import { effectOf, type PolicyNeeds, type ToolDecision, type ToolPolicy } from "./decision.ts";
import type { CallToJudge } from "./facts.ts";
import { guarded } from "./guard.ts";
import type { PlacedValue } from "./provenance.ts";
import { selectsPrincipal, selectsTool } from "./selector.ts";
import { Situation } from "./situation.ts";

interface CompiledRule {
  readonly rule: PolicyRule;
  readonly holds: Holds | null;
  readonly needs: PolicyNeeds;
}

interface ToolRules {
  readonly rules: readonly CompiledRule[];
  readonly needs: PolicyNeeds;
}

const NO_NEEDS: PolicyNeeds = { sources: false, history: false };
/** Tools whose rules are remembered. */
const REMEMBERED_COUNT = 2_000;

/** `id`: hash of the canonical document. Throws `policy_invalid` with the place of what is wrong. */
export function compilePolicy(given: unknown, id: string): ToolPolicy {
  const document = parseDocument(given);
  const rules = document.rules.map(compileRule);
  const byTool = new Map<string, ToolRules>();
  const rulesFor = (call: Pick<CallToJudge, "tool" | "approve" | "isClassified">): ToolRules => {
    const effect = effectOf(call);
    const key = `${call.tool.name}\n${call.tool.server}\n${effect}\n${call.approve}\n${call.isClassified}`;
    const known = byTool.get(key);
    if (known !== undefined) return known;
    const about = rules.filter(({ rule }) => selectsTool(rule.tools, { call, effect }));
    const found = { rules: about, needs: sumOf(about.map(({ needs }) => needs)) };
    if (byTool.size >= REMEMBERED_COUNT) byTool.clear();
    byTool.set(key, found);
    return found;
  };
  return {
    id,
    document,
    needs: sumOf(rules.map(({ needs }) => needs)),
    needsOf: (call) => {
      const { needs } = rulesFor(call);
      // What was read may be more confidential than where the call goes.
      return { ...needs, sources: needs.sources || call.tool.clearance > 0 };
    },
    decide: (call, facts) => decide(rulesFor(call).rules, new Situation(call, facts)),
  };
}

function parseDocument(given: unknown): PolicyDocument {
  const parsed = policyDocumentSchema.safeParse(given);
  if (!parsed.success) {
    const fields = parsed.error.issues.slice(0, 20).map(({ path, message }) => ({
      pointer: `/${path.map(String).join("/")}`,
      detail: message,
    }));
    throw new PlatformError("policy_invalid", undefined, { fields });
  }
  const ids = parsed.data.rules.map(({ id }) => id);
  const twice = ids.findIndex((id, index) => ids.indexOf(id) !== index);
  if (twice >= 0) throw invalid(`/rules/${twice}/id`, "Another rule has this id.");
  return parsed.data;
}

function compileRule(rule: PolicyRule, index: number): CompiledRule {
  const { id } = rule;
  if (id.startsWith("guard.")) throw invalid(`/rules/${index}/id`, "Names that begin with guard. are taken.");
  if (rule.verdict === "forbid" && rule.conditions !== undefined) {
    throw invalid(`/rules/${index}/conditions`, "A call that is forbidden has no conditions.");
  }
  return {
    rule,
    holds: rule.when === undefined ? null : compileCondition(rule.when, `/rules/${index}/when`),
    needs: rule.when === undefined ? NO_NEEDS : needsOfCondition(rule.when),
  };
}

function sumOf(needs: readonly PolicyNeeds[]): PolicyNeeds {
  return { sources: needs.some((each) => each.sources), history: needs.some((each) => each.history) };
}

function matches({ rule, holds }: CompiledRule, situation: Situation): boolean {
  return selectsPrincipal(rule.principals, situation.facts) && (holds === null || holds(situation));
}

/** A forbidding rule decides by itself: no other is asked, and none can lift it. */
function decide(rules: readonly CompiledRule[], situation: Situation): ToolDecision {
  const guard = guarded(situation);
  if (guard !== null) return denied([guard.rule], guard.reason, situation);
  const matched: Record<PolicyVerdict, PolicyRule[]> = { allow: [], ask: [], forbid: [] };
  for (const each of rules) if (matches(each, situation)) matched[each.rule.verdict].push(each.rule);
  const { forbid, ask, allow } = matched;
  if (forbid.length > 0) return denied(idsOf(forbid), reasonOf(forbid, "The policy forbids this call."), situation);
  if (ask.length === 0 && allow.length === 0) {
    return denied([], "No rule of the policy allows this call.", situation);
  }
  const asks = ask.length > 0;
  return {
    verdict: asks ? "ask" : "allow",
    code: null,
    reason: asks ? reasonOf(ask, "A person must decide about this call.") : "",
    rules: idsOf(asks ? ask : allow),
    conditions: mergeConditions([...allow, ...ask].flatMap(({ conditions }) => conditions ?? [])),
    provenance: asks ? shown(situation.placed) : [],
  };
}

function denied(rules: readonly string[], reason: string, situation: Situation): ToolDecision {
  return {
    verdict: "deny",
    code: "policy_denied",
    reason,
    rules,
    conditions: [],
    provenance: placedIfKnown(situation),
  };
}

/** A denial stands whether or not its values can be placed. */
function placedIfKnown(situation: Situation): ToolDecision["provenance"] {
  try {
    return shown(situation.placed);
  } catch {
    return [];
  }
}

function shown(placed: readonly PlacedValue[]): ToolDecision["provenance"] {
  return placed.map(({ at, origin, tool, isDestination }) => ({ at, origin, tool, isDestination }));
}

function idsOf(rules: readonly PolicyRule[]): readonly string[] {
  return rules.map(({ id }) => id).sort();
}

/** The reasons of all rules, in the order of their ids, each once. */
function reasonOf(rules: readonly PolicyRule[], otherwise: string): string {
  const sorted = [...rules].sort((left, right) => (left.id < right.id ? -1 : 1));
  const reasons = new Set(sorted.flatMap(({ reason }) => (reason === undefined ? [] : [reason])));
  return reasons.size === 0 ? otherwise : [...reasons].join(" ");
}
