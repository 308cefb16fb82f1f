import type { AcceptedMessage, Agent, Conversation, Run } from "@signalbox/contract";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiWorld, type Asked, type Told } from "../../setup/api-world.ts";
import { expectProblem } from "./problems.ts";

let world: ApiWorld;
let key: string;

beforeAll(async () => {
  world = await ApiWorld.open();
  key = await world.key();
  await world.ask("/v1/agents", { key, body: { name: "support", model: "sim/quote" } });
});

afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

interface Page<T> {
  readonly data: readonly T[];
  readonly nextCursor: string | null;
}

async function converse(): Promise<string> {
  return (await world.ask<Conversation>("/v1/conversations", { key, body: { agent: "support" } })).body.id;
}

function send(conversation: string, body: object): Promise<Told<AcceptedMessage>> {
  return world.ask<AcceptedMessage>(`/v1/conversations/${conversation}/messages`, { key, body });
}

/** Every page, by its cursors. */
async function pages<T>(path: string): Promise<readonly (readonly T[])[]> {
  const read: (readonly T[])[] = [];
  let cursor: string | null = null;
  do {
    const query: string = cursor === null ? "" : `&cursor=${encodeURIComponent(cursor)}`;
    const { body }: Told<Page<T>> = await world.ask<Page<T>>(`${path}${query}`, { key });
    read.push(body.data);
    cursor = body.nextCursor;
  } while (cursor !== null);
  return read;
}

describe("a list", () => {
  it("comes in pages that together are all there is, in either order", async () => {
    for (let at = 0; at < 5; at += 1) {
      await world.ask<Agent>("/v1/agents", { key, body: { name: `agent-${at}`, model: "sim/quote" } });
    }
    const up = await pages<Agent>("/v1/agents?limit=2&order=asc");
    expect(up.map((page) => page.length)).toEqual([2, 2, 2]);
    const names = up.flat().map(({ name }) => name);
    expect(names).toEqual(["support", "agent-0", "agent-1", "agent-2", "agent-3", "agent-4"]);
    const down = await pages<Agent>("/v1/agents?limit=4");
    expect(down.flat().map(({ name }) => name)).toEqual(names.toReversed());
  });

  it("does not move when something is added while it is read", async () => {
    const first = [await converse(), await converse(), await converse()];
    const { body } = await world.ask<Page<Conversation>>("/v1/conversations?limit=2", { key });
    await converse();
    const next = await world.ask<Page<Conversation>>(`/v1/conversations?limit=2&cursor=${body.nextCursor}`, { key });
    expect([...body.data, ...next.body.data].map(({ id }) => id).slice(0, 3)).toEqual(first.toReversed());
  });

  it("takes no cursor of which a part was lost", async () => {
    for (let count = 0; count < 3; count += 1) await converse();
    const { body } = await world.ask<Page<Conversation>>("/v1/conversations?limit=1", { key });
    const cursor = body.nextCursor ?? "";
    for (let lost = 1; lost < 8; lost += 1) {
      for (const part of [cursor.slice(0, -lost), cursor.slice(lost)]) {
        expectProblem(await world.refused(`/v1/conversations?limit=1&cursor=${part}`, { key }), "invalid_cursor");
      }
    }
  });

  it("is gone on with by its own cursor alone: not another list's, tenant's, end user's, filter's or order's", async () => {
    const [here, there] = [await converse(), await converse()];
    for (const conversation of [here, there]) {
      await send(conversation, { content: "walrus" });
      await send(conversation, { content: "walrus" });
    }
    const foreign = await world.key({ tenantId: "other" });
    for (let at = 0; at < 2; at += 1) {
      const name = `foreign-${at}`;
      await world.ask("/v1/agents", { key: foreign, body: { name, model: "sim/quote" } });
    }
    const lists: readonly (readonly [path: string, asked: Asked])[] = [
      ["/v1/agents?limit=1", { key }],
      ["/v1/agents?limit=1&order=asc", { key }],
      ["/v1/agents?limit=1", { key: foreign }],
      ["/v1/conversations?limit=1", { key }],
      ["/v1/conversations?limit=1&archived=all", { key }],
      ["/v1/conversations?limit=1&agent=support", { key }],
      ["/v1/conversations?limit=1&q=walrus", { key }],
      ["/v1/runs?limit=1", { key }],
      [`/v1/runs?limit=1&conversation=${here}`, { key }],
      [`/v1/conversations/${there}/runs?limit=1`, { key }],
      [`/v1/conversations/${here}/messages?limit=1`, { key }],
      [`/v1/conversations/${there}/messages?limit=1`, { key }],
    ];
    const cursors = await Promise.all(
      lists.map(async ([path, asked]) => (await world.ask<Page<object>>(path, asked)).body.nextCursor),
    );
    for (const [at, [path, asked]] of lists.entries()) {
      for (const [of, cursor] of cursors.entries()) {
        const told = await world.refused(`${path}&cursor=${cursor}`, asked);
        if (at === of) expect(told.status).toBe(200);
        else expectProblem(told, "invalid_cursor");
      }
    }
    const asUser = await world.refused(`/v1/runs?limit=1&cursor=${cursors[7]}`, { key, user: "u_1" });
    expectProblem(asUser, "invalid_cursor");
  });

  it("of runs can be narrowed to a conversation, at two addresses that say the same", async () => {
    const [here, there] = [await converse(), await converse()];
    const { body } = await send(here, { content: "hello" });
    await send(there, { content: "hello" });
    const narrowed = await world.ask<Page<Run>>(`/v1/runs?conversation=${here}`, { key });
    expect(narrowed.body.data.map(({ id }) => id)).toEqual([body.run.id]);
    expect((await world.ask(`/v1/conversations/${here}/runs`, { key })).body).toEqual(narrowed.body);
  });
});

describe("a message", () => {
  it("is acknowledged with what became of it, and shown by the conversation", async () => {
    const conversation = await converse();
    const first = await send(conversation, { content: "one", metadata: { a: "b" } });
    expect(first.status).toBe(202);
    expect(first.headers.get("location")).toBe(`/v1/runs/${first.body.run.id}`);
    expect(first.body).toMatchObject({
      accepted: "started",
      message: { role: "user", content: "one", metadata: { a: "b" }, partial: false },
      run: { status: "running", reason: null, requested: {}, granted: { whenBusy: "enqueue", model: "sim/quote" } },
      eventsUrl: `/v1/conversations/${conversation}/events?after=0`,
    });
    const second = await send(conversation, {
      content: [
        { type: "text", text: "two" },
        { type: "text", text: "three" },
      ],
    });
    expect(second.body).toMatchObject({
      accepted: "queued",
      message: { content: "two\n\nthree" },
      run: { status: "queued" },
    });
    expect((await world.ask(`/v1/conversations/${conversation}`, { key })).body).toMatchObject({
      activeRun: { id: first.body.run.id, status: "running" },
      queue: [{ runId: second.body.run.id, messageId: second.body.message.id, position: 1 }],
      waitingFor: [],
    });
    const history = await pages<{ content: string }>(`/v1/conversations/${conversation}/messages?limit=1&order=asc`);
    expect(history.flat().map(({ content }) => content)).toEqual(["one", "two\n\nthree"]);
  });

  it.each(["attachments", "mode", "effort", "capabilities", "context", "channel", "speakable", "projectId"])(
    "that asks for %s is refused by that name, and nothing is recorded",
    async (field) => {
      const conversation = await converse();
      const path = `/v1/conversations/${conversation}/messages`;
      const told = await world.refused(path, { key, body: { content: "hello", [field]: "something" } });
      expectProblem(told, "field_not_supported");
      expect(told.body.errors[0]?.pointer).toBe(`/${field}`);
      expect((await world.ask(path, { key })).body.data).toEqual([]);
    },
  );

  it("may name the agent's own model, and no other", async () => {
    const conversation = await converse();
    expect((await send(conversation, { content: "hello", model: "sim/quote" })).status).toBe(202);
    const path = `/v1/conversations/${conversation}/messages`;
    expectProblem(await world.refused(path, { key, body: { content: "x", model: "sim/other" } }), "model_not_granted");
  });

  it("beyond the queue is refused with a time to wait", async () => {
    const conversation = await converse();
    for (let at = 0; at < 21; at += 1) expect((await send(conversation, { content: `${at}` })).status).toBe(202);
    const path = `/v1/conversations/${conversation}/messages`;
    const told = await world.refused(path, { key, body: { content: "21" } });
    expectProblem(told, "queue_full");
    expect(Number(told.headers.get("retry-after"))).toBeGreaterThan(0);
    expect(told.body.limit).toBe(20);
    expect(told.headers.get("ratelimit-policy")).toBe('"queued-runs-per-conversation";q=20');
  });

  it("that says too much is refused for its length", async () => {
    const path = `/v1/conversations/${await converse()}/messages`;
    expectProblem(await world.refused(path, { key, body: { content: "x".repeat(200_001) } }), "payload_too_large");
  });
});

describe("a cancel", () => {
  it("ends a run that nobody owns at once, and lets the next one begin", async () => {
    const conversation = await converse();
    const first = await send(conversation, { content: "one" });
    const second = await send(conversation, { content: "two" });
    const told = await world.ask<Run>(`/v1/runs/${first.body.run.id}/cancel`, { key, method: "POST" });
    expect(told.status).toBe(200);
    expect(told.body).toMatchObject({ status: "cancelled", reason: "user_cancel" });
    expect((await world.ask(`/v1/runs/${second.body.run.id}`, { key })).body).toMatchObject({ status: "running" });
    const again = await world.ask<Run>(`/v1/runs/${first.body.run.id}/cancel`, { key, method: "POST" });
    expect([again.status, again.body]).toEqual([200, told.body]);
  });

  it("of a run that is owned is a request to its owner", async () => {
    const conversation = await converse();
    const { body } = await send(conversation, { content: "one" });
    expect((await world.claim(conversation)).claim.runId).toBe(body.run.id);
    const told = await world.ask<Run>(`/v1/runs/${body.run.id}/cancel`, { key, method: "POST" });
    expect(told.status).toBe(202);
    expect(told.body).toMatchObject({ status: "running", cancelRequestedAt: expect.any(String) as string });
  });
});
