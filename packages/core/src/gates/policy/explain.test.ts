import type { PolicyRule } from "@signalbox/contract";
import { describe, expect, it } from "vitest";
import { compilePolicy } from "./compile.ts";
import { explainDecision, type DecisionExplanation } from "./explain.ts";
import type { CallToJudge, RunFacts } from "./facts.ts";

const FACTS: RunFacts = {
  principal: { tenantId: "t", user: "emma", roles: [], units: [], clearance: 0 },
  agent: "support",
  runtime: "langgraph",
  posture: "dev",
  sources: [],
  areSourcesCut: false,
  history: [],
  nowMs: 0,
};

const CALL: CallToJudge = {
  toolCallId: "tc",
  tool: {
    name: "bank__pay",
    server: "bank",
    tool: "pay",
    effect: "write",
    definitionHash: "0",
    inputSchema: {},
    unit: null,
    clearance: 0,
  },
  approve: "policy",
  isClassified: true,
  arguments: { amount: 60, to: "Carol" },
};

function explained(rules: readonly PolicyRule[], call: Partial<CallToJudge> = {}): DecisionExplanation {
  return explainDecision(compilePolicy({ version: 1, rules }, "p"), { ...CALL, ...call }, FACTS);
}

function without({ wouldChange }: DecisionExplanation): readonly string[] {
  return wouldChange.map(({ what, verdict }) => `${what}: ${verdict}`).filter((each) => each.startsWith("without"));
}

const ALLOW: PolicyRule = { id: "allow", verdict: "allow" };
const ASK: PolicyRule = { id: "ask", verdict: "ask" };

describe("an explanation", () => {
  it("names the rule that decides alone, and what would be without it", () => {
    expect(without(explained([ALLOW, ASK]))).toEqual(["without the rule ask: allow"]);
    expect(without(explained([ALLOW]))).toEqual(["without the rule allow: deny"]);
  });

  it("names no rule where another one says the same, or none of the document decided", () => {
    expect(without(explained([ALLOW, ASK, { ...ASK, id: "ask-too" }]))).toEqual([]);
    expect(without(explained([{ ...ALLOW, tools: { servers: ["shop"] } }]))).toEqual([]);
    const foreign = { tool: { ...CALL.tool, unit: "acme/legal" } };
    const guarded = explained([ALLOW], foreign);
    expect(guarded.decision).toMatchObject({ verdict: "deny", rules: ["guard.unit"] });
    expect(without(guarded)).toEqual([]);
  });

  it("tells of every class and word of the operator that would decide otherwise", () => {
    const read: PolicyRule = { id: "read", verdict: "allow", tools: { effects: ["read"] } };
    const always: PolicyRule = { id: "always", verdict: "ask", tools: { approve: ["always"] } };
    const { wouldChange } = explained([read, always]);
    expect(wouldChange).toContainEqual({ what: "if the tool were classified as read", verdict: "allow" });
    expect(wouldChange).toContainEqual({ what: "if the operator's word about asking were always", verdict: "ask" });
    expect(wouldChange).toHaveLength(2);
  });

  // Compiled once more for each of them, such a policy kept its process from everything else for a minute and more.
  it("of a policy with as many rules as it may have, all of which match, is given at once", { timeout: 20_000 }, () => {
    const of = Array.from(
      { length: 10 },
      () => ({ kind: "argument", at: "/to", test: "equals", value: "Carol" }) as const,
    );
    const when = { kind: "all", of } as const;
    const rules = Array.from({ length: 1_000 }, (_, place): PolicyRule => ({ ...ALLOW, id: `allow-${place}`, when }));
    const { decision, wouldChange } = explained(rules);
    expect(decision.rules).toHaveLength(1_000);
    expect(wouldChange).toEqual([]);
  });
});
