/** What one decision of the policy takes with 500 rules, over calls of many kinds; and the same with none of it asked. */
import {
  compilePolicy,
  DEFAULT_POLICY,
  judgeBatch,
  type CallToJudge,
  type RunFacts,
  type Source,
  type ToolPolicy,
} from "@signalbox/core";
import type { PolicyRule } from "@signalbox/contract";

const RULE_COUNT = 500;
const SERVER_COUNT = 40;

/** The shipped rules, and for every tool of a large organisation some of its own. */
export function largePolicy(): ToolPolicy {
  const own = Array.from({ length: RULE_COUNT - DEFAULT_POLICY.rules.length }, (_, index): PolicyRule => {
    const name = `srv${index % SERVER_COUNT}__t${index % 8}`;
    const tools = { names: [name] };
    const id = `rule-${index}`;
    switch (index % 4) {
      case 0:
        return { id, verdict: "allow", tools, principals: { units: [`acme/u${index % 7}`] } };
      case 1:
        return {
          id,
          verdict: "ask",
          tools,
          when: { kind: "argument", at: "/amount", test: "more_than", value: 10_000 },
        };
      case 2:
        return {
          id,
          verdict: "forbid",
          tools,
          when: { kind: "history", calls: { names: [name], withinMs: 60_000 }, includesThis: true, moreThan: 20 },
        };
      default:
        return {
          id,
          verdict: "forbid",
          when: {
            kind: "all",
            of: [
              { kind: "tool", is: { names: [name] } },
              { kind: "argument", at: "/path", test: "present" },
              { kind: "not", of: { kind: "argument", at: "/path", test: "under_path", value: "/workspace" } },
            ],
          },
        };
    }
  });
  return compilePolicy({ ...DEFAULT_POLICY, rules: [...DEFAULT_POLICY.rules, ...own] }, "large");
}

const EFFECTS = ["read", "egress_read", "write", "irreversible"] as const;

export function mixedCalls(count: number): readonly CallToJudge[] {
  return Array.from({ length: count }, (_, index) => {
    const [server, tool] = [`srv${index % SERVER_COUNT}`, `t${index % 8}`];
    return {
      toolCallId: `tc_${index}`,
      tool: {
        name: `${server}__${tool}`,
        server,
        tool,
        effect: EFFECTS[index % EFFECTS.length] ?? "read",
        definitionHash: "0",
        inputSchema: { type: "object", properties: { amount: { type: "number" }, to: { type: "string" } } },
        unit: null,
        clearance: 0,
      },
      approve: "policy",
      isClassified: true,
      arguments: { amount: index % 500, to: `user${index % 50}@example.com`, note: `Invoice ${index} of this month` },
    } satisfies CallToJudge;
  });
}

const TEXT = "The order of user7@example.com was delivered on the third of May; nothing else is open in this account. ";

/** A run that has read 16 KB and made 40 calls. */
export function busyFacts(): RunFacts {
  const source = (kind: "user" | "tool", text: string): Source => ({
    kind,
    tool: kind === "tool" ? "srv1__t1" : null,
    isTrusted: kind === "user",
    isPrivate: kind === "tool",
    clearance: 0,
    text,
  });
  return {
    principal: { tenantId: "t", user: "u", roles: ["clerk"], units: ["acme/u3"], clearance: 1 },
    agent: "a",
    runtime: "langgraph",
    posture: "production",
    sources: [
      source("user", "Pay what user7@example.com and user9@example.com are owed, up to 500 each."),
      ...Array.from({ length: 8 }, () => source("tool", TEXT.repeat(20))),
    ],
    areSourcesCut: false,
    history: Array.from({ length: 40 }, (_, index) => ({
      name: `srv${index}__t${index % 8}`,
      server: `srv${index}`,
      tool: `t${index % 8}`,
      effect: "write",
      state: index % 9 === 0 ? "executing" : "succeeded",
      arguments: { amount: index },
      atMs: 1_000 - index,
    })),
    nowMs: 1_000,
  };
}

/** Microseconds of each decision, in order of size, after a warm-up. */
export function decisionTimes(count: number, nowMs: () => number): readonly number[] {
  const [policy, facts, calls] = [largePolicy(), busyFacts(), mixedCalls(400)];
  for (let round = 0; round < 20; round += 1) for (const call of calls) judgeBatch(policy, [call], facts);
  const times: number[] = [];
  while (times.length < count) {
    for (const call of calls) {
      const from = nowMs();
      judgeBatch(policy, [call], facts);
      times.push((nowMs() - from) * 1_000);
    }
  }
  return times.sort((left, right) => left - right);
}
