/**
 * A policy that does not answer: whatever keeps it from saying that a call is allowed, the tool is not called, the model
 * reads that it was refused, and the ledger and the audit say why.
 */
import { callVerdict, type CallVerdict, type ToolJudge } from "@signalbox/core";
import { startMcpServer } from "@signalbox/testkit";
import { expect, it } from "vitest";
import { systemClock } from "../../../packages/server/src/system/ports.ts";
import { proves } from "../../setup/proves.ts";
import { callTool, propose, startToolFixture, textOf } from "./tool-fixture.ts";

const ALLOW = callVerdict({ verdict: "allow", reason: "" });
const countCall = { id: "toolu_1", name: "docs__count", input: { n: 1 } };

type Answer = ToolJudge["judge"];

const never: Answer = () => new Promise(() => undefined);
/** What a policy could answer that is no verdict; a judge of this kind does not keep to its type. */
const answering = (answer: unknown): Answer => (async () => answer) as Answer;

const FAILURES: Readonly<Record<string, Answer>> = {
  "never answers": never,
  throws: async () => {
    throw new Error("the policy is broken");
  },
  "answers {}": answering({}),
  "answers text that is no JSON": answering("{oops"),
  "answers nothing": answering(undefined),
  "answers for fewer calls than there are": answering([]),
  "answers a verdict that does not exist": answering([{ ...ALLOW, verdict: "sure" }]),
  "answers a verdict without its reason": answering([{ verdict: "allow" }]),
  "answers after its time is over": async (_, signal) => {
    await systemClock.sleep(60_000, signal);
    return [ALLOW];
  },
};

async function counted(
  judge: ToolJudge,
): Promise<{ readonly calls: number; readonly said: string; readonly code: string }> {
  await using neighbour = await startMcpServer({ tools: { count: { result: "counted" } } });
  const tools = { count: { effect: "irreversible" } } as const;
  const docs = { transport: "http", url: neighbour.url, headers: {}, tools } as const;
  await using fixture = await startToolFixture({ servers: { docs }, judge });
  await propose(fixture.record, countCall);
  const answer = await callTool(fixture.url, countCall);
  const [row] = fixture.record.toolCalls;
  return { calls: neighbour.calls.length, said: textOf(answer), code: row?.verdict?.code ?? "" };
}

proves("INV-15", {
  title: "a policy that fails in any way denies: the tool is not called, and the model reads that it was refused",
  sabotages: ["silence_allows"],
  timeoutMs: 60_000,
  async holds(sabotage) {
    for (const [failure, fails] of Object.entries(FAILURES)) {
      const judge: Answer =
        sabotage === null ? fails : async (batch, signal) => (await fails(batch, signal).catch(() => null), [ALLOW]);
      if (sabotage !== null && fails === never) continue;
      const { calls, said, code } = await counted({ version: () => "failing", judge });
      expect(calls, `INV-15: a policy that ${failure}`).toBe(0);
      expect(said).toContain("could not be asked");
      expect(code).toBe("policy_unavailable");
    }
  },
});

it("each of many calls at once has a verdict of its own, however long the policy takes", async () => {
  await using neighbour = await startMcpServer({ tools: { count: { result: "counted" } } });
  const tools = { count: { effect: "irreversible" } } as const;
  const docs = { transport: "http", url: neighbour.url, headers: {}, tools } as const;
  const judge: Answer = async ({ calls }, signal) => {
    await systemClock.sleep(500, signal);
    return calls.map(({ argumentsJson }): CallVerdict => {
      const { n } = JSON.parse(argumentsJson) as { readonly n: number };
      return n % 2 === 0 ? ALLOW : callVerdict({ verdict: "deny", reason: `number ${n} is odd` });
    });
  };
  await using fixture = await startToolFixture({ servers: { docs }, judge: { version: () => "slow", judge } });
  const calls = Array.from({ length: 12 }, (_, n) => ({ id: `toolu_${n}`, name: "docs__count", input: { n } }));
  await propose(fixture.record, ...calls);
  const answers = await Promise.all(calls.map((call) => callTool(fixture.url, call)));
  expect(neighbour.calls).toHaveLength(6);
  for (const [n, answer] of answers.entries()) {
    expect(textOf(answer)).toContain(n % 2 === 0 ? "counted" : `number ${n} is odd`);
  }
}, 30_000);

it("a run that is cancelled while the policy is asked makes no call", async () => {
  await using neighbour = await startMcpServer({ tools: { count: { result: "counted" } } });
  const tools = { count: { effect: "irreversible" } } as const;
  const docs = { transport: "http", url: neighbour.url, headers: {}, tools } as const;
  let cancel: () => Promise<void> = async () => undefined;
  const judge: Answer = async ({ calls }) => {
    await cancel();
    return calls.map(() => ALLOW);
  };
  await using fixture = await startToolFixture({ servers: { docs }, judge: { version: () => "v", judge } });
  cancel = async () => {
    await fixture.record.cancel();
  };
  await propose(fixture.record, countCall);
  const answer = await callTool(fixture.url, countCall);
  expect(answer.status).toBe(410);
  expect(neighbour.calls).toHaveLength(0);
});
