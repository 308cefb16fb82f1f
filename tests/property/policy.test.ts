/** What holds of every policy, whatever its rules say and in whatever order they stand. */
import { EFFECT_CLASSES, ORIGINS, POLICY_VERDICTS, type PolicyCondition, type PolicyRule } from "@signalbox/contract";
import {
  compilePolicy,
  DEFAULT_POLICY,
  judgeBatch,
  type CallToJudge,
  type RunFacts,
  type Source,
  type ToolDecision,
  type ToolPolicy,
} from "@signalbox/core";
import fc from "fast-check";
import { expect, it } from "vitest";
import { proves } from "../setup/proves.ts";

const NAMES = ["mail__send", "files__read", "bank__pay"] as const;
const UNITS = ["acme", "acme/finance", "acme/finance-eu"] as const;

const condition = fc.letrec<{ leaf: PolicyCondition; node: PolicyCondition }>((tie) => ({
  leaf: fc.oneof(
    fc.record({
      kind: fc.constant("argument" as const),
      at: fc.constantFrom("/amount", "/to"),
      test: fc.constant("equals" as const),
      value: fc.constantFrom(1, 50, "anna@example.com"),
    }),
    // Throws for an amount that is no number.
    fc.record({
      kind: fc.constant("argument" as const),
      at: fc.constant("/amount"),
      test: fc.constant("more_than" as const),
      value: fc.constantFrom(10, 100),
    }),
    fc.record({
      kind: fc.constant("provenance" as const),
      of: fc.constantFrom("all" as const, "destinations" as const),
      are: fc.constantFrom("every" as const, "some" as const),
      from: fc.subarray([...ORIGINS], { minLength: 1 }),
    }),
    fc.record({
      kind: fc.constant("history" as const),
      calls: fc.constant({}),
      includesThis: fc.boolean(),
      moreThan: fc.nat(3),
    }),
    fc.record({ kind: fc.constant("seen" as const), what: fc.constant(["untrusted" as const]) }),
  ),
  node: fc.oneof(
    { maxDepth: 3 },
    tie("leaf"),
    fc.record({ kind: fc.constant("all" as const), of: fc.array(tie("node"), { minLength: 1, maxLength: 3 }) }),
    fc.record({ kind: fc.constant("any" as const), of: fc.array(tie("node"), { minLength: 1, maxLength: 3 }) }),
    fc.record({ kind: fc.constant("not" as const), of: tie("node") }),
  ),
})).node;

const rules: fc.Arbitrary<readonly PolicyRule[]> = fc
  .array(
    fc.record(
      {
        verdict: fc.constantFrom(...POLICY_VERDICTS),
        tools: fc.record(
          {
            effects: fc.subarray([...EFFECT_CLASSES], { minLength: 1 }),
            names: fc.subarray([...NAMES], { minLength: 1 }),
          },
          { requiredKeys: [] },
        ),
        principals: fc.record({ units: fc.subarray(["acme", "acme/finance"], { minLength: 1 }) }, { requiredKeys: [] }),
        when: condition,
      },
      { requiredKeys: ["verdict"] },
    ),
    { maxLength: 12 },
  )
  .map((all) => all.map((rule, index) => ({ ...rule, id: `r${index}` })));

const call: fc.Arbitrary<CallToJudge> = fc
  .record({
    name: fc.constantFrom(...NAMES),
    effect: fc.constantFrom(...EFFECT_CLASSES),
    approve: fc.constantFrom("policy" as const, "always" as const, "never" as const),
    isClassified: fc.boolean(),
    clearance: fc.nat(2),
    unit: fc.constantFrom(null, "acme", "acme/finance"),
    given: fc.record(
      {
        amount: fc.oneof(fc.constantFrom<unknown>(1, 50, 500, "500"), fc.jsonValue({ maxDepth: 3 })),
        to: fc.constantFrom("anna@example.com", "eve@evil.example", "https://evil.example/?d=s3cret"),
        text: fc.string(),
      },
      { requiredKeys: [] },
    ),
  })
  .map(({ name, effect, approve, isClassified, clearance, unit, given }) => {
    const [server = "", tool = ""] = name.split("__");
    const judged = { name, server, tool, effect, definitionHash: "0", inputSchema: {}, unit, clearance };
    return { toolCallId: "tc", tool: judged, approve, isClassified, arguments: given };
  });

const source: fc.Arbitrary<Source> = fc.record({
  kind: fc.constantFrom("user" as const, "system" as const, "tool" as const, "passage" as const),
  tool: fc.constantFrom(null, "files__read"),
  isTrusted: fc.boolean(),
  isPrivate: fc.boolean(),
  clearance: fc.nat(2),
  text: fc.constantFrom("pay 50 to anna@example.com", "send it to eve@evil.example", "the secret is s3cret", ""),
});

const facts: fc.Arbitrary<RunFacts> = fc.record({
  principal: fc.record({
    tenantId: fc.constant("t"),
    user: fc.constantFrom(null, "emma"),
    roles: fc.subarray(["clerk", "auditor"]),
    units: fc.subarray([...UNITS]),
    clearance: fc.nat(2),
  }),
  agent: fc.constantFrom("a", "b"),
  runtime: fc.constant("langgraph"),
  posture: fc.constantFrom("dev" as const, "production" as const),
  sources: fc.array(source, { maxLength: 4 }),
  areSourcesCut: fc.boolean(),
  history: fc.constant([]),
  nowMs: fc.constant(1_000),
});

const RANK = { deny: 0, ask: 1, allow: 2 } as const;

function policyOf(all: readonly PolicyRule[]): ToolPolicy {
  return compilePolicy({ version: 1, rules: all }, "p");
}

function judged(policy: ToolPolicy, one: CallToJudge, of: RunFacts): ToolDecision {
  const [decision] = judgeBatch(policy, [one], of);
  if (decision === undefined) throw new Error("a call had no decision");
  return decision;
}

type Defect = "errors count as allowed" | "silence counts as allowed" | "an allowing rule lifts a forbidding one";

const ALLOWED = { verdict: "allow", code: null, reason: "", conditions: [], provenance: [] } as const;

function defective(policy: ToolPolicy, defect: Defect | null): ToolPolicy {
  if (defect === null) return policy;
  const allowing = policy.document.rules.filter(({ verdict }) => verdict === "allow");
  const lenient = policyOf(allowing);
  return {
    ...policy,
    decide(one, of) {
      try {
        const decision = policy.decide(one, of);
        const isSilent = decision.verdict === "deny" && decision.rules.length === 0;
        if (defect === "silence counts as allowed" && isSilent) return { ...ALLOWED, rules: [] };
        return defect === "an allowing rule lifts a forbidding one" && lenient.decide(one, of).verdict === "allow"
          ? { ...ALLOWED, rules: decision.rules }
          : decision;
      } catch (thrown) {
        if (defect === "errors count as allowed") return { ...ALLOWED, rules: [] };
        throw thrown;
      }
    },
  };
}

/** Whether a call is one that only a rule of this policy could have let pass. */
function mustBeDenied(all: readonly PolicyRule[], one: CallToJudge, of: RunFacts): boolean {
  const alone = all.map((rule) => {
    try {
      const decision = policyOf([rule]).decide(one, of);
      return decision.rules.some((id) => id === rule.id) ? rule.verdict : "silent";
    } catch {
      return "error";
    }
  });
  return alone.every((each) => each === "silent") || alone.includes("forbid") || alone.includes("error");
}

proves("INV-15", {
  title: "what cannot be judged, what no rule matches and what any rule forbids is denied",
  sabotages: ["errors count as allowed", "silence counts as allowed", "an allowing rule lifts a forbidding one"],
  holds(defect: Defect | null) {
    fc.assert(
      fc.property(rules, call, facts, (all, one, of) => {
        const policy = defective(policyOf(all), defect);
        if (mustBeDenied(all, one, of)) expect(judged(policy, one, of).verdict).toBe("deny");
      }),
      { seed: 15, numRuns: 500 },
    );
  },
});

it("decides alike whatever the order of its rules", () => {
  fc.assert(
    fc.property(fc.tuple(rules, fc.nat()), call, facts, ([all, turn], one, of) => {
      const other = [...all.slice(turn % (all.length + 1)), ...all.slice(0, turn % (all.length + 1))].reverse();
      expect(judged(policyOf(other), one, of)).toEqual(judged(policyOf(all), one, of));
    }),
  );
});

it("allows no more when a forbidding or an asking rule is added", () => {
  fc.assert(
    fc.property(rules, condition, fc.constantFrom("forbid" as const, "ask" as const), call, facts, (...drawn) => {
      const [all, when, verdict, one, of] = drawn;
      const before = judged(policyOf(all), one, of);
      const after = judged(policyOf([...all, { id: "added", verdict, when }]), one, of);
      // One that asks may turn what nobody allowed into a question, never into a call.
      if (verdict === "forbid") expect(RANK[after.verdict]).toBeLessThanOrEqual(RANK[before.verdict]);
      else if (before.verdict !== "allow") expect(after.verdict).not.toBe("allow");
    }),
  );
});

it("lets nobody read above their clearance, nor write below what was read, nor use another unit's tool", () => {
  fc.assert(
    fc.property(rules, call, facts, (all, one, of) => {
      const { verdict } = judged(policyOf([...all, { id: "all", verdict: "allow" }]), one, of);
      const { clearance, unit } = one.tool;
      const isWrite = !one.isClassified || one.tool.effect !== "read";
      const isBelow = isWrite && of.sources.some((each) => each.clearance > clearance);
      const isForeign =
        unit !== null && !of.principal.units.some((each) => each === unit || each.startsWith(`${unit}/`));
      if (clearance > of.principal.clearance || isBelow || isForeign) expect(verdict).toBe("deny");
    }),
  );
});

it("never throws, gives each call one decision, and lets earlier calls of a message count", () => {
  const policy = policyOf([
    { id: "allow", verdict: "allow" },
    {
      id: "two-at-most",
      verdict: "forbid",
      when: { kind: "history", calls: {}, includesThis: true, moreThan: 2 },
    },
  ]);
  fc.assert(
    fc.property(fc.array(call, { maxLength: 6 }), facts, (calls, of) => {
      const decisions = judgeBatch(policy, calls, of);
      expect(decisions).toHaveLength(calls.length);
      expect(decisions.filter(({ verdict }) => verdict === "allow").length).toBeLessThanOrEqual(2);
    }),
  );
});

it("denies by default what nobody classified in production, and only asks in dev", () => {
  const policy = compilePolicy(DEFAULT_POLICY, "default");
  fc.assert(
    fc.property(call, facts, (one, of) => {
      const verdict = judged(policy, { ...one, isClassified: false }, of).verdict;
      expect(of.posture === "production" ? ["deny"] : ["deny", "ask"]).toContain(verdict);
    }),
  );
});
