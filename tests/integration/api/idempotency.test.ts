import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiWorld, LANGGRAPH, type Asked, type Told } from "../../setup/api-world.ts";
import { expectProblem } from "./problems.ts";

let world: ApiWorld;
let key: string;

beforeAll(async () => {
  world = await ApiWorld.open();
  key = await world.key();
  await world.ask("/v1/agents", { key, body: AGENT });
});

afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

const AGENT = { name: "support", model: "sim/quote" };

interface Thing {
  readonly id: string;
}

function once(idempotencyKey: string, asked: Asked = {}): Asked {
  return { key, ...asked, headers: { "idempotency-key": idempotencyKey, ...asked.headers } };
}

async function conversation(user?: string): Promise<string> {
  const told = await world.ask<Thing>("/v1/conversations", {
    key,
    body: { agent: "support" },
    ...(user === undefined ? {} : { user }),
  });
  return told.body.id;
}

function replayed({ headers }: Told<unknown>): boolean {
  return headers.get("idempotent-replayed") === "true";
}

describe("creating something twice with one key", () => {
  it("gives the first answer again, byte for byte", async () => {
    const body = { ...AGENT, name: "twice" };
    const first = await world.ask("/v1/agents", once("a1", { body }));
    const second = await world.ask("/v1/agents", once("a1", { body: { model: body.model, name: body.name } }));
    expect(first.status).toBe(201);
    expect(replayed(first)).toBe(false);
    expect([second.status, second.body, second.headers.get("location")]).toEqual([
      first.status,
      first.body,
      first.headers.get("location"),
    ]);
    expect(replayed(second)).toBe(true);
  });

  it("at once creates one thing", async () => {
    const tries = Array.from({ length: 8 }, () =>
      world.ask<Thing>("/v1/conversations", once("c1", { body: { agent: "support" } })),
    );
    const told = await Promise.all(tries);
    expect(new Set(told.map(({ body }) => body.id)).size).toBe(1);
    expect(told.filter(replayed)).toHaveLength(7);
  });

  it("with another body is refused, and so is another address", async () => {
    await world.ask("/v1/conversations", once("c2", { body: { agent: "support" } }));
    const other = { agent: "support", title: "other" };
    expectProblem(await world.refused("/v1/conversations", once("c2", { body: other })), "idempotency_key_reused");
    expectProblem(
      await world.refused("/v1/agents", once("c2", { body: { ...AGENT, name: "third" } })),
      "idempotency_key_reused",
    );
    expectProblem(await world.refused("/v1/agents/third", { key }), "not_found");
  });

  it("is answered also when what it needed has gone", async () => {
    const body = { ...AGENT, name: "survivor" };
    const first = await world.ask("/v1/agents", once("a2", { body }));
    world.runtimes.length = 0;
    try {
      const second = await world.ask("/v1/agents", once("a2", { body }));
      expect(second.body).toEqual(first.body);
      expect(replayed(second)).toBe(true);
      expectProblem(await world.refused("/v1/agents", once("a3", { body })), "runtime_unknown");
      expectProblem(
        await world.refused("/v1/agents", once("a2", { body: { ...body, instructions: "x" } })),
        "idempotency_key_reused",
      );
    } finally {
      world.runtimes.push(LANGGRAPH);
    }
  });

  it("keeps nothing of what was refused", async () => {
    const taken = await world.refused("/v1/agents", once("a4", { body: AGENT }));
    expectProblem(taken, "agent_name_taken");
    const told = await world.ask("/v1/agents", once("a4", { body: { ...AGENT, name: "other" } }));
    expect(told.status).toBe(201);
  });

  it("as two end users creates two things", async () => {
    const [mine, yours, ours, again] = await Promise.all(
      ["u1", "u2", undefined, "u1"].map((user) =>
        world.ask<Thing>(
          "/v1/conversations",
          once("c3", { body: { agent: "support" }, ...(user === undefined ? {} : { user }) }),
        ),
      ),
    );
    expect(new Set([mine?.body.id, yours?.body.id, ours?.body.id]).size).toBe(3);
    expect(again?.body.id).toBe(mine?.body.id);
  });

  it("in two tenants creates two things", async () => {
    const stranger = await world.key({ tenantId: "other" });
    const body = { ...AGENT, name: "both" };
    const here = await world.ask<Thing>("/v1/agents", once("a5", { body }));
    const there = await world.ask<Thing>("/v1/agents", once("a5", { body, key: stranger }));
    expect(there.status).toBe(201);
    expect(there.body.id).not.toBe(here.body.id);
  });
});

describe("sending a message twice with one key", () => {
  it("makes one run, acknowledged with the same document whatever has become of it", async () => {
    const path = `/v1/conversations/${await conversation()}/messages`;
    const first = await world.ask<{ run: Thing }>(path, once("m1", { body: { content: "hello" } }));
    await world.ask(`/v1/runs/${first.body.run.id}/cancel`, { key, method: "POST" });
    const second = await world.ask<{ run: Thing }>(path, once("m1", { body: { content: "hello" } }));
    expect([second.status, second.body, second.headers.get("location")]).toEqual([
      202,
      first.body,
      `/v1/runs/${first.body.run.id}`,
    ]);
    expect([replayed(first), replayed(second)]).toEqual([false, true]);
  });

  it("with other words, or in another conversation, is refused", async () => {
    const path = `/v1/conversations/${await conversation()}/messages`;
    await world.ask(path, once("m2", { body: { content: "hello" } }));
    expectProblem(await world.refused(path, once("m2", { body: { content: "bye" } })), "idempotency_key_reused");
    const other = `/v1/conversations/${await conversation()}/messages`;
    expectProblem(await world.refused(other, once("m2", { body: { content: "hello" } })), "idempotency_key_reused");
  });

  it("may be said with an id the client minted", async () => {
    const path = `/v1/conversations/${await conversation()}/messages`;
    const body = { content: "hello", id: "msg_0190a0b0c0d07000800000000000000a" };
    const first = await world.ask<{ run: Thing }>(path, { key, body });
    const second = await world.ask<{ run: Thing }>(path, { key, body });
    expect(second.body.run.id).toBe(first.body.run.id);
    expect(replayed(second)).toBe(true);
    const { body: problem } = await world.refused(path, { key, body: { content: "hello", id: "mine" } });
    expect(problem.errors).toEqual([{ pointer: "/id", detail: "not a message id" }]);
  });
});

describe("a key that is none", () => {
  it.each(["a b", "é", "x".repeat(256)])("%j is refused, and nothing is created", async (idempotencyKey) => {
    const told = await world.refused("/v1/agents", once(idempotencyKey, { body: { ...AGENT, name: "never" } }));
    expectProblem(told, "invalid_request");
    expect(told.body.errors[0]?.pointer).toBe("Idempotency-Key");
    expectProblem(await world.refused("/v1/agents/never", { key }), "not_found");
  });
});
