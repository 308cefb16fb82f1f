import type { AcceptedMessage, Agent, Conversation, Run } from "@signalbox/contract";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiWorld } from "../../setup/api-world.ts";
import { auditOf } from "./audit-of.ts";
import { expectProblem } from "./problems.ts";

let world: ApiWorld;
let key: string;
let count = 0;

beforeAll(async () => {
  world = await ApiWorld.open();
  key = await world.key();
});

afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

async function create(): Promise<Agent> {
  count += 1;
  const body = { name: `agent-${count}`, model: "sim/quote", instructions: "one" };
  return (await world.ask<Agent>("/v1/agents", { key, body })).body;
}

function change(agent: Agent, body: object, headers = {}) {
  return world.ask<Agent>(`/v1/agents/${agent.name}`, { key, method: "PATCH", body, headers });
}

async function converse(agent: Agent): Promise<string> {
  return (await world.ask<Conversation>("/v1/conversations", { key, body: { agent: agent.id } })).body.id;
}

function send(conversation: string, headers = {}) {
  const body = { content: "hello" };
  return world.ask<AcceptedMessage>(`/v1/conversations/${conversation}/messages`, { key, body, headers });
}

describe("changing an agent", () => {
  it("makes a revision of what is given, and none of what changes nothing", async () => {
    const agent = await create();
    const second = await change(agent, { instructions: "two" });
    expect(second.status).toBe(200);
    expect(second.headers.get("etag")).toBe('"2"');
    expect(second.body).toEqual({ ...agent, instructions: "two", revision: 2 });
    for (const same of [{}, { instructions: "two" }, { model: "sim/quote", tools: [], disabled: false }]) {
      expect((await change(agent, same)).body.revision).toBe(2);
    }
    expect((await change(agent, { maxOutputTokens: 100 })).body.revision).toBe(3);
    const { body } = await world.ask<{ data: object[] }>(`/v1/agents/${agent.id}/revisions?order=asc`, { key });
    expect(body.data).toMatchObject([
      { agentId: agent.id, revision: 1, instructions: "one", maxOutputTokens: 8_192 },
      { revision: 2, instructions: "two", maxOutputTokens: 8_192 },
      { revision: 3, instructions: "two", maxOutputTokens: 100 },
    ]);
    const audit = await auditOf(world, "agent_changed");
    expect(audit.filter(({ facts }) => facts.agentId === agent.id).map(({ facts }) => facts)).toEqual([
      { agentId: agent.id, changed: ["instructions"], revision: 2 },
      { agentId: agent.id, changed: ["maxOutputTokens"], revision: 3 },
    ]);
  });

  it("is refused when the agent has moved on from the revision that was named", async () => {
    const agent = await create();
    await change(agent, { instructions: "two", revision: 1 });
    const late = [
      await change(agent, { instructions: "late", revision: 1 }),
      await change(agent, { instructions: "late" }, { "if-match": '"1"' }),
      await change(agent, { instructions: "late", revision: 2 }, { "if-match": '"1"' }),
      await change(agent, { instructions: "late" }, { "if-match": "2" }),
    ];
    for (const told of late) expectProblem(told, "revision_changed");
    expect((await change(agent, { instructions: "three" }, { "if-match": '"2"' })).body.revision).toBe(3);
  });

  it("of ten changes at once keeps each, one revision after the other", async () => {
    const agent = await create();
    const told = await Promise.all(Array.from({ length: 10 }, (_, at) => change(agent, { instructions: `at ${at}` })));
    expect(told.map(({ body }) => body.revision).toSorted((a, b) => a - b)).toEqual([2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    const race = await Promise.all(
      Array.from({ length: 5 }, (_, at) => change(agent, { instructions: `race ${at}`, revision: 11 })),
    );
    expect(race.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 412, 412, 412, 412]);
  });

  it.each([
    [{ colour: "red" }, "field_unknown", "/colour"],
    [{ name: "other" }, "field_unknown", "/name"],
    [{ model: "quote" }, "invalid_request", "/model"],
    [{ model: "nobody/quote" }, "model_unknown", "/model"],
    [{ runtime: "other" }, "runtime_unknown", "/runtime"],
    [{ tools: ["no/tool"] }, "tool_unknown", "/tools/0"],
    [{ disabled: "yes" }, "invalid_request", "/disabled"],
    [{ revision: 0 }, "invalid_request", "/revision"],
  ] as const)("with %j is refused as %s, naming %s", async (body, code, pointer) => {
    const agent = await create();
    const told = await change(agent, body);
    expectProblem(told, code);
    expect(told.body).toMatchObject({ errors: [{ pointer }] });
    expect((await world.ask<Agent>(`/v1/agents/${agent.id}`, { key })).body).toEqual(agent);
  });

  it("leaves accepted runs at their revision, and gives the next message the new one", async () => {
    const agent = await create();
    const conversation = await converse(agent);
    const before = [await send(conversation), await send(conversation)];
    await change(agent, { instructions: "two" });
    const after = await send(conversation);
    const revisions = await Promise.all(
      [...before, after].map(async ({ body }) => (await world.ask<Run>(`/v1/runs/${body.run.id}`, { key })).body),
    );
    expect(revisions.map((run) => run.agent.revision)).toEqual([1, 1, 2]);
  });
});

describe("a disabled agent", () => {
  it("refuses new messages by name, lets accepted ones go on, and answers a repetition as before", async () => {
    const agent = await create();
    const conversation = await converse(agent);
    const accepted = await send(conversation, { "idempotency-key": "once" });
    const queued = await send(conversation);
    const disabled = await change(agent, { disabled: true });
    expect(disabled.body).toEqual({ ...agent, disabled: true });
    const told = await send(conversation);
    expectProblem(told, "agent_disabled");
    const again = await send(conversation, { "idempotency-key": "once" });
    expect([again.status, again.body.run.id]).toEqual([202, accepted.body.run.id]);
    const ownership = await world.claim(conversation);
    expect(ownership.claim.runId).toBe(accepted.body.run.id);
    expect((await world.ask<Run>(`/v1/runs/${queued.body.run.id}`, { key })).body.status).toBe("queued");
    await change(agent, { disabled: false });
    expect((await send(conversation)).status).toBe(202);
    const audit = (await auditOf(world, "agent_changed")).filter(({ facts }) => facts.agentId === agent.id);
    expect(audit.map(({ facts }) => facts.disabled)).toEqual([true, false]);
  });

  it("can be changed while its worker is away", async () => {
    const agent = await create();
    const offered = world.runtimes.splice(0);
    try {
      expect((await change(agent, { disabled: true, instructions: "two" })).body).toMatchObject({ revision: 2 });
    } finally {
      world.runtimes.push(...offered);
    }
  });
});
