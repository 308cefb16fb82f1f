import type { Actor } from "@signalbox/contract";
import { afterAll, beforeAll, expect, it } from "vitest";
import { AgentQueries } from "../../../packages/server/src/store/queries/agent-queries.ts";
import { AnsweringQueries } from "../../../packages/server/src/store/queries/answering-queries.ts";
import { ApiKeyQueries } from "../../../packages/server/src/store/queries/api-key-queries.ts";
import { ConversationQueries } from "../../../packages/server/src/store/queries/conversation-queries.ts";
import { EventQueries } from "../../../packages/server/src/store/queries/event-queries.ts";
import { IdempotencyQueries } from "../../../packages/server/src/store/queries/idempotency-queries.ts";
import { MessageQueries } from "../../../packages/server/src/store/queries/message-queries.ts";
import type { Page, PageRequest } from "../../../packages/server/src/store/queries/page.ts";
import { RunQueries } from "../../../packages/server/src/store/queries/run-queries.ts";
import { SnapshotQueries } from "../../../packages/server/src/store/queries/snapshot-queries.ts";
import { ACTOR, codeOf, commandFor, finishRun, newId, sha256, startedRun, textEvent, TURN } from "./record-parts.ts";
import { pinTools } from "./pin-tools.ts";
import { RecordWorld, type RecordProcess } from "./record-world.ts";

let world: RecordWorld;
let process: RecordProcess;
const viewer = { tenantId: "default", user: null };

beforeAll(async () => {
  world = await RecordWorld.open();
  process = await world.process();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

/** Every item, page by page. */
async function all<T>(read: (page: PageRequest) => Promise<Page<T>>, order: "asc" | "desc", limit = 2) {
  const items: T[] = [];
  for (let cursor: string | null = null; ;) {
    const page: Page<T> = await read({ limit, cursor, order });
    expect(page.items.length).toBeLessThanOrEqual(limit);
    items.push(...page.items);
    cursor = page.nextCursor;
    if (cursor === null) {
      return items;
    }
  }
}

function newAgent(name: string, tenantId = "default") {
  return {
    tenantId,
    agentId: newId("agent"),
    name,
    runtime: "scripted",
    definition: { model: "sim/echo" },
    actor: ACTOR,
  };
}

it("creates an agent, finds it by id and by name, and refuses its name to another", async () => {
  const agents = new AgentQueries(process.tenants);
  const agent = newAgent("support");
  const created = await agents.create(agent, null);
  expect(created).toMatchObject({
    kind: "created",
    value: {
      agentId: agent.agentId,
      name: "support",
      revision: 1,
      runtime: "scripted",
      definition: { model: "sim/echo" },
    },
  });
  expect(await agents.find("default", "support")).toEqual(await agents.find("default", agent.agentId));
  expect(await agents.find("other", agent.agentId)).toBeNull();
  expect(await codeOf(agents.create(newAgent("support"), null))).toBe("agent_name_taken");
  expect((await agents.create(newAgent("support", "other"), null)).kind).toBe("created");
});

it("lists in pages whose cursors survive what comes and goes, in both orders", async () => {
  const agents = new AgentQueries(process.tenants);
  const names = ["p1", "p2", "p3", "p4", "p5"];
  for (const name of names) {
    await agents.create(newAgent(name, "paged"), null);
  }
  const list = (page: PageRequest) => agents.list("paged", page);
  expect((await all(list, "asc")).map((agent) => agent.name)).toEqual(names);
  expect((await all(list, "desc")).map((agent) => agent.name)).toEqual(names.toReversed());
  const first = await list({ limit: 2, cursor: null, order: "asc" });
  await agents.create(newAgent("p6", "paged"), null);
  const rest = await list({ limit: 10, cursor: first.nextCursor, order: "asc" });
  expect(rest.items.map((agent) => agent.name)).toEqual(["p3", "p4", "p5", "p6"]);
  for (const cursor of ["", "x", "MS4", first.nextCursor!.slice(1)]) {
    expect(await codeOf(list({ limit: 2, cursor, order: "asc" })), `the cursor ${cursor}`).toBe("invalid_cursor");
  }
});

it("a repeated creation has one effect and one answer", async () => {
  const agents = new AgentQueries(process.tenants);
  const once = (bodyHash: string, route = "POST /v1/agents") => ({
    key: "agent-key",
    route,
    bodyHash,
    answer: (row: { readonly name: string }) => ({ status: 201, body: JSON.stringify({ name: row.name }) }),
  });
  const results = await Promise.all(["a1", "a1", "a1"].map((name) => agents.create(newAgent(name), once("h"))));
  expect(results.map((result) => result.kind).toSorted()).toEqual(["created", "replayed", "replayed"]);
  expect(results.find((result) => result.kind === "replayed")).toEqual({
    kind: "replayed",
    status: 201,
    body: '{"name":"a1"}',
  });
  expect(await codeOf(agents.create(newAgent("a2"), once("other")))).toBe("idempotency_key_reused");
  expect(await codeOf(agents.create(newAgent("a2"), once("h", "POST /v1/other")))).toBe("idempotency_key_reused");
  expect(await codeOf(agents.create(newAgent("a1"), { ...once("h"), key: "second" })), "nothing half").toBe(
    "agent_name_taken",
  );
  const second = { key: "second", route: once("h").route, bodyHash: "h" };
  expect(await new IdempotencyQueries(process.tenants).answered("default", second)).toBeNull();
});

it("shows a conversation with its active run and queue to those who may see it", async () => {
  const conversations = new ConversationQueries(process.tenants);
  const place = await world.conversation({ user: "u_1" });
  const actor: Actor = { ...ACTOR, user: "u_1" };
  const { admission } = await startedRun(process, place, { actor });
  const second = await process.admission.admit(commandFor(place, { actor }));
  const third = await process.admission.admit(commandFor(place, { actor }));
  const row = await conversations.find({ tenantId: "default", user: "u_1" }, place.conversationId);
  expect(row).toMatchObject({
    participant: "u_1",
    lastSequence: 4,
    generation: 1,
    owner: process.incarnation,
    activeRun: { runId: admission.runId, state: "running" },
    queue: [
      { runId: second.runId, messageId: second.messageId, position: 1 },
      { runId: third.runId, messageId: third.messageId, position: 2 },
    ],
  });
  expect(await conversations.find(viewer, place.conversationId)).toEqual(row);
  for (const stranger of [
    { tenantId: "default", user: "u_2" },
    { tenantId: "other", user: null },
  ]) {
    expect(await conversations.find(stranger, place.conversationId)).toBeNull();
    expect((await conversations.list(stranger, { limit: 9, cursor: null, order: "asc" })).items).toEqual([]);
    expect(await new RunQueries(process.tenants).find(stranger, admission.runId)).toBeNull();
    expect(await new MessageQueries(process.tenants).find(stranger, admission.messageId)).toBeNull();
    expect(
      (
        await new MessageQueries(process.tenants).list(stranger, place.conversationId, {
          limit: 9,
          cursor: null,
          order: "asc",
        })
      ).items,
    ).toEqual([]);
    const events = new EventQueries(process.pools.app);
    expect(await events.place(stranger, place.conversationId)).toBeNull();
    expect(await events.after(stranger, place.conversationId, { afterSequence: 0, limit: 9 })).toEqual([]);
  }
  const mine = await conversations.list(viewer, { limit: 9, cursor: null, order: "asc" }, { agentId: place.agentId });
  expect(mine.items.map((each) => each.conversationId)).toEqual([place.conversationId]);
});

it("tells what would answer a message: the agent at its current revision with its pinned tools", async () => {
  const answering = new AnsweringQueries(process.pools.app);
  const tenantId = "answering";
  const place = await world.conversation({ tenantId, user: "u_1" });
  const pin = {
    server: "files",
    tool: "a/b",
    title: "T",
    definition: { name: "a/b" },
    definitionHash: "h",
    effect: "read",
  } as const;
  await pinTools(process.tenants, tenantId, [pin, { ...pin, tool: "unnamed" }]);
  await world.rows("update signalbox.agent_revision set definition = $2 where agent_id = $1", [
    place.agentId,
    JSON.stringify({ tools: ["files/a/b", "files/unpinned"] }),
  ]);
  const agent = await new AgentQueries(process.tenants).find(tenantId, place.agentId);
  const found = await answering.find({ tenantId, user: "u_1" }, place.conversationId);
  const { disabled: _, ...named } = agent!;
  expect(found).toEqual({ ...named, participant: "u_1", pins: [pin] });
  expect(await answering.find({ tenantId, user: "u_2" }, place.conversationId)).toBeNull();
  expect(await answering.find({ tenantId: "other", user: null }, place.conversationId)).toBeNull();
});

it("refuses a conversation of an agent that does not exist for the tenant", async () => {
  const conversations = new ConversationQueries(process.tenants);
  const foreign = await world.conversation({ tenantId: "elsewhere" });
  const create = (agentId: typeof foreign.agentId) =>
    conversations.create(
      { tenantId: "default", conversationId: newId("conversation"), agentId, title: null, metadata: {}, actor: ACTOR },
      null,
    );
  expect(await codeOf(create(newId("agent")))).toBe("not_found");
  expect(await codeOf(create(foreign.agentId))).toBe("not_found");
});

it("shows a run from its acceptance to its end, and the history in pairs", async () => {
  const runs = new RunQueries(process.tenants);
  const messages = new MessageQueries(process.tenants);
  const place = await world.conversation();
  const first = await startedRun(process, place, {
    text: "one",
    requested: { model: null },
    granted: { model: "sim/echo" },
  });
  const second = await process.admission.admit(commandFor(place, { text: "two" }));
  await first.ownership.append([textEvent("hi")], TURN);
  await finishRun(first.ownership, { rung: "fresh", servedModel: "echo-1" });
  const row = await runs.find(viewer, first.admission.runId);
  expect(row).toMatchObject({
    state: "completed",
    reason: "answered",
    generation: 1,
    attempt: 1,
    cursor: 0,
    rung: "fresh",
    servedModel: "echo-1",
    requested: { model: null },
    granted: { model: "sim/echo" },
    usage: { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 },
    costMicros: null,
    error: null,
    cancelRequestedAtMs: null,
  });
  expect(row!.finishedAtMs).toBeGreaterThanOrEqual(row!.startedAtMs!);
  expect(row!.startedAtMs).toBeGreaterThanOrEqual(row!.acceptedAtMs);
  expect(await runs.find(viewer, second.runId)).toMatchObject({
    state: "admitted",
    generation: 0,
    owner: null,
    cursor: 2,
  });
  const history = await all((page) => messages.list(viewer, place.conversationId, page), "asc");
  expect(history.map(({ role, text }) => [role, text])).toEqual([
    ["user", "one"],
    ["assistant", "an answer"],
    ["user", "two"],
  ]);
  expect(history[1]!.messageId).toBe(row!.answerMessageId);
  const states = async (filter: Parameters<typeof runs.list>[2]) =>
    (await all((page) => runs.list(viewer, page, filter), "asc")).map((run) => run.state);
  expect(await states({ conversationId: place.conversationId })).toEqual(["completed", "admitted"]);
  expect(await states({ conversationId: place.conversationId, states: ["completed", "failed"] })).toEqual([
    "completed",
  ]);
});

it("reads events as the contract describes them, from any cursor", async () => {
  const events = new EventQueries(process.pools.app);
  const place = await world.conversation();
  const { admission, ownership } = await startedRun(process, place);
  await ownership.append([textEvent("hi", 1_048_577, "itm_x")], TURN);
  expect(await events.place(viewer, place.conversationId)).toEqual({
    lastSequence: 3,
    keptSequence: 0,
    replaced: false,
  });
  const read = await events.after(viewer, place.conversationId, { afterSequence: 2, limit: 10 });
  expect(read).toEqual([
    {
      type: "text.completed",
      itemId: "itm_x",
      sequence: 3,
      revision: 1_048_577,
      conversationId: place.conversationId,
      runId: admission.runId,
      turnId: TURN,
      traceId: ownership.claim.traceId,
      generation: 1,
      at: read[0]!.at,
      text: "hi",
    },
  ]);
  expect(read[0]!.at).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
});

it("keeps keys by their hash, finds them without knowing the tenant, and forgets the revoked", async () => {
  const keys = new ApiKeyQueries(process.tenants, process.pools.run);
  const hash = Buffer.from(sha256("secret"), "hex");
  const key = {
    keyId: newId("apiKey"),
    tenantId: "t1",
    name: "dev",
    prefix: "sbx_ab",
    hash,
    rights: ["assert_actor"],
    actor: ACTOR,
  };
  const created = await keys.create(key);
  expect(created).toMatchObject({ keyId: key.keyId, tenantId: "t1", rights: ["assert_actor"], revokedAtMs: null });
  expect(await keys.create({ ...key, keyId: newId("apiKey") })).toEqual(created);
  expect(await keys.findByHash(hash)).toEqual(created);
  expect(await keys.findByHash(Buffer.from("no"))).toBeNull();
  expect(await keys.revoke("t2", key.keyId)).toBe(false);
  expect(await keys.revoke("t1", key.keyId)).toBe(true);
  expect(await keys.revoke("t1", key.keyId)).toBe(false);
  expect(await keys.findByHash(hash)).toBeNull();
  expect((await all((page) => keys.list("t1", page), "asc")).map((each) => each.keyId)).toEqual([key.keyId]);
});

it("gives a snapshot back as it was stored", async () => {
  const place = await world.conversation();
  const command = commandFor(place);
  await process.admission.admit(command);
  const snapshots = new SnapshotQueries(process.tenants);
  expect(await snapshots.find("default", command.snapshotHash)).toEqual(command.snapshot);
  expect(await snapshots.find("other", command.snapshotHash)).toBeNull();
});
