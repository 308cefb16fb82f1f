import { makeId, uuidV7Bytes, type IdKind, type Snapshot } from "@signalbox/contract";
import {
  DEFAULT_POLICY,
  NO_WORD,
  type BatchCall,
  type CallVerdict,
  type FactsRequest,
  type KeptFacts,
  type Log,
  type PolicyInPlace,
  type ToolBatch,
  type ToolJudge,
} from "@signalbox/core";
import { describe, expect, it } from "vitest";
import { systemClock, systemDigest, systemRandomness } from "../system/ports.ts";
import { judgeMessage } from "./judging.ts";
import { createPolicyJudge, type PolicyJudgeParts } from "./policy-judge.ts";
import { PolicySource } from "./policy-source.ts";

const SILENT: Log = { info: () => undefined, warn: () => undefined, error: () => undefined };
const NO_FACTS: KeptFacts = { texts: [], areTextsCut: false, history: [], nowMs: 0 };

const newId = <Kind extends IdKind>(kind: Kind) => makeId(kind, uuidV7Bytes(1, systemRandomness.bytes(10)));

const SNAPSHOT: Snapshot = {
  agentId: "agt_1",
  agentName: "support",
  revision: 1,
  runtime: "langgraph",
  instructions: "Help.",
  model: "sim/quote",
  maxOutputTokens: 100,
  tools: [],
  limits: { modelCallCount: 1, toolCallCount: 1, wallClockMs: 1 },
};

const VIEW: ToolBatch["view"] = {
  tenantId: "default",
  conversationId: "cnv_1",
  snapshot: SNAPSHOT,
  snapshotHash: "h",
  actor: { keyId: "key_1", user: "u_1", roles: ["clerk"], units: ["acme/support"] },
  run: { runId: newId("run"), messageId: newId("message"), generation: 1, traceId: "t" },
};

function call(tool: string, given: object = {}): BatchCall {
  const toolCallId = newId("toolCall");
  const server = "shop";
  return {
    toolCallId,
    toolUseId: toolCallId,
    name: `${server}__${tool}`,
    server,
    tool,
    effect: "irreversible",
    definitionHash: "0",
    argumentsJson: JSON.stringify(given),
    state: "proposed",
  };
}

interface World {
  readonly current: () => Promise<PolicyInPlace | null>;
  readonly facts?: (request: FactsRequest) => Promise<KeptFacts>;
  readonly words?: PolicyJudgeParts["words"];
}

async function within<T>(world: World, act: (judge: ToolJudge) => Promise<T>): Promise<T> {
  const { current, facts = async () => NO_FACTS, words = (_server, tool) => ({ ...NO_WORD, ...WORDS[tool] }) } = world;
  const ports = { clock: systemClock, digest: systemDigest, log: SILENT };
  await using source = new PolicySource({ ...ports, record: { current }, tenantId: "default", maxAgeMs: 0 });
  const parts = {
    source,
    record: { facts },
    words,
    wordsVersion: () => "w",
    posture: "production",
    clock: systemClock,
  } as const;
  return await act(createPolicyJudge(parts));
}

const WORDS: Readonly<Record<string, Partial<typeof NO_WORD>>> = {
  look: { effect: "read", isClassified: true },
  note: { effect: "write", isClassified: true },
  pay: { effect: "irreversible", isClassified: true },
};

async function verdicts(world: World, calls: readonly BatchCall[]): Promise<readonly CallVerdict[]> {
  return within(world, async (judge) => {
    const ports = { judge, clock: systemClock, digest: systemDigest, log: SILENT };
    return (await judgeMessage(ports, { view: VIEW, calls })).judged.map(({ verdict }) => verdict);
  });
}

const inPlace = (rules: readonly object[]) => async (): Promise<PolicyInPlace> => ({
  hash: JSON.stringify(rules),
  document: { version: 1, rules },
});
const never = new Promise<never>(() => undefined);

describe("a policy that does not decide has denied", () => {
  it.each<[string, World]>([
    ["never answers", { current: () => never }],
    ["cannot be read", { current: () => Promise.reject(new Error("gone")) }],
    ["is nothing", { current: async () => ({ hash: "x", document: {} }) }],
    ["is no document", { current: async () => ({ hash: "x", document: "{malformed" }) }],
    ["answers after its time", { current: () => systemClock.sleep(3_000).then(inPlace([])) }],
    ["needs facts that never come", { current: async () => null, facts: () => never }],
    ["needs facts that cannot be read", { current: async () => null, facts: () => Promise.reject(new Error("gone")) }],
    [
      "needs what the operator says, which cannot be read",
      {
        current: async () => null,
        words: () => {
          throw new Error("gone");
        },
      },
    ],
  ])("when it %s", async (_how, world) => {
    const told = await verdicts(world, [call("note"), call("pay")]);
    expect(told.map(({ verdict, code }) => [verdict, code])).toEqual([
      ["deny", "policy_unavailable"],
      ["deny", "policy_unavailable"],
    ]);
  });

  it("and gives each of twelve calls at once its own decision while it is slow", async () => {
    const slow: World = { current: async () => null, facts: () => systemClock.sleep(200).then(() => NO_FACTS) };
    const told = await Promise.all(Array.from({ length: 12 }, () => verdicts(slow, [call("note")])));
    expect(told.flat().map(({ verdict }) => verdict)).toEqual(Array.from({ length: 12 }, () => "allow"));
  });
});

describe("the policy in place", () => {
  it("is the shipped one while nobody has put another in place", async () => {
    const told = await verdicts({ current: async () => null }, [call("look"), call("note"), call("pay"), call("new")]);
    expect(told.map(({ verdict }) => verdict)).toEqual(["allow", "allow", "ask", "deny"]);
  });

  it("is another one as soon as the record says so, and so is its name", async () => {
    let document: PolicyInPlace | null = null;
    await within({ current: async () => document }, async (judge) => {
      const judged = async () => (await judge.judge({ view: VIEW, calls: [call("look")] }, signal))[0]?.verdict;
      expect(await judged()).toBe("allow");
      const before = judge.version();
      document = await inPlace([])();
      expect(await judged()).toBe("deny");
      expect(judge.version()).not.toBe(before);
    });
  });

  it("is asked with nothing read where it needs nothing", async () => {
    const asked: FactsRequest[] = [];
    const facts = async (request: FactsRequest) => {
      asked.push(request);
      return NO_FACTS;
    };
    await verdicts({ current: async () => null, facts }, [call("look")]);
    expect(asked).toEqual([]);
    const note = call("note");
    await verdicts({ current: async () => null, facts }, [call("look"), note]);
    expect(asked).toMatchObject([{ needs: { sources: true, history: false }, asOf: null }]);
    expect(asked[0]?.besides).toContain(note.toolCallId);
  });

  it("knows what was read, and says where a value of a call comes from", async () => {
    const content = [{ type: "text", text: '{"mail":"eve@evil.example"}' }];
    const read = {
      kind: "tool",
      server: "shop",
      tool: "look",
      effect: "read",
      text: JSON.stringify({ content }),
    } as const;
    const said = {
      kind: "user",
      server: null,
      tool: null,
      effect: null,
      text: "Write a note for anna@example.com",
    } as const;
    const world: World = { current: async () => null, facts: async () => ({ ...NO_FACTS, texts: [said, read] }) };
    const calls = [call("note", { to: "anna@example.com" }), call("note", { to: "eve@evil.example" })];
    const [meant, foreign] = await verdicts(world, calls);
    expect(meant?.verdict).toBe("allow");
    expect(foreign).toMatchObject({
      verdict: "ask",
      rules: ["ask-foreign-destination", "ask-not-meant"],
      origins: [{ at: "/to", origin: "tool", tool: "shop__look", isDestination: true }],
    });
  });

  it("says who may approve, and hands its conditions on", async () => {
    const conditions = [
      { kind: "approval", by: "other", withinMs: 60_000 },
      { kind: "redact", at: ["/iban"] },
    ];
    const current = inPlace([{ id: "pay", verdict: "ask", conditions }]);
    expect(await verdicts({ current }, [call("pay")])).toMatchObject([
      { approver: "other", expiresInMs: 60_000, conditions: [conditions[1]], rules: ["pay"] },
    ]);
  });

  it("is a document that compiles", async () => {
    const current = async () => ({ hash: "d", document: DEFAULT_POLICY });
    expect(await verdicts({ current }, [call("look")])).toMatchObject([{ verdict: "allow" }]);
  });
});

const signal = new AbortController().signal;
