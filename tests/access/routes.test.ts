/**
 * Every route of the API, for every kind of caller. The routes come from the API itself: one that is missing from the
 * table below fails the test that says so, and cannot be forgotten.
 */
import type { AcceptedMessage, Problem } from "@signalbox/contract";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { apiRoutes } from "../../packages/server/src/api/api-routes.ts";
import { RIGHTS, type Right } from "../../packages/server/src/api/caller.ts";
import { ApiWorld, newId, type Asked, type Told } from "../setup/api-world.ts";

/** Things of one end user of the tenant `default`, and ids of things that do not exist. */
interface Things {
  readonly agent: string;
  readonly conversation: string;
  readonly run: string;
  readonly hold: string;
  readonly stop: string;
}

interface Access {
  /** `null`: anybody, without a key. */
  readonly right: Right | null;
  readonly path: (things: Things) => string;
  readonly body?: (things: Things) => unknown;
  /** What is owned by the end user, by the tenant, or by nobody: who else may not see it. */
  readonly owner: "user" | "tenant" | "nobody";
  /** Status for whoever may. */
  readonly status: number;
}

const ACCESS: Readonly<Record<string, Access>> = {
  getHealth: { right: null, path: () => "/healthz", owner: "nobody", status: 200 },
  getReadiness: { right: null, path: () => "/readyz", owner: "nobody", status: 200 },
  explainError: { right: null, path: () => "/errors/not_found", owner: "nobody", status: 200 },
  getInfo: { right: "read", path: () => "/v1/info", owner: "nobody", status: 200 },
  listRuntimes: { right: "read", path: () => "/v1/runtimes", owner: "nobody", status: 200 },
  listAgents: { right: "read", path: () => "/v1/agents", owner: "nobody", status: 200 },
  createAgent: {
    right: "agents",
    path: () => "/v1/agents",
    body: () => ({ name: `agent-${newId("agent").slice(-12)}`, model: "sim/quote" }),
    owner: "nobody",
    status: 201,
  },
  getAgent: { right: "read", path: ({ agent }) => `/v1/agents/${agent}`, owner: "tenant", status: 200 },
  updateAgent: {
    right: "agents",
    path: ({ agent }) => `/v1/agents/${agent}`,
    body: () => ({ instructions: "Be brief." }),
    owner: "tenant",
    status: 200,
  },
  listAgentRevisions: {
    right: "read",
    path: ({ agent }) => `/v1/agents/${agent}/revisions`,
    owner: "tenant",
    status: 200,
  },
  createConversation: {
    right: "write",
    path: () => "/v1/conversations",
    body: ({ agent }) => ({ agent }),
    owner: "tenant",
    status: 201,
  },
  forkConversation: {
    right: "write",
    path: ({ conversation }) => `/v1/conversations/${conversation}/fork`,
    body: () => ({}),
    owner: "user",
    status: 201,
  },
  listConversations: { right: "read", path: () => "/v1/conversations", owner: "nobody", status: 200 },
  getConversation: {
    right: "read",
    path: ({ conversation }) => `/v1/conversations/${conversation}`,
    owner: "user",
    status: 200,
  },
  updateConversation: {
    right: "write",
    path: ({ conversation }) => `/v1/conversations/${conversation}`,
    body: () => ({ title: "another's title" }),
    owner: "user",
    status: 200,
  },
  deleteConversation: {
    right: "write",
    path: ({ conversation }) => `/v1/conversations/${conversation}`,
    owner: "user",
    status: 204,
  },
  listMessages: {
    right: "read",
    path: ({ conversation }) => `/v1/conversations/${conversation}/messages`,
    owner: "user",
    status: 200,
  },
  sendMessage: {
    right: "write",
    path: ({ conversation }) => `/v1/conversations/${conversation}/messages`,
    body: () => ({ content: "hello" }),
    owner: "user",
    status: 202,
  },
  streamEvents: {
    right: "read",
    path: ({ conversation }) => `/v1/conversations/${conversation}/events?follow=false`,
    owner: "user",
    status: 200,
  },
  listEvents: { right: "read", path: () => "/v1/events", owner: "nobody", status: 200 },
  listConversationRuns: {
    right: "read",
    path: ({ conversation }) => `/v1/conversations/${conversation}/runs`,
    owner: "user",
    status: 200,
  },
  listRuns: { right: "read", path: () => "/v1/runs", owner: "nobody", status: 200 },
  getRun: { right: "read", path: ({ run }) => `/v1/runs/${run}`, owner: "user", status: 200 },
  listHolds: { right: "read", path: () => "/v1/holds", owner: "nobody", status: 200 },
  getHold: { right: "read", path: ({ hold }) => `/v1/holds/${hold}`, owner: "user", status: 200 },
  decideHold: {
    right: "write",
    path: ({ hold }) => `/v1/holds/${hold}/decision`,
    body: () => ({ decision: "respond", response: "42" }),
    owner: "user",
    status: 200,
  },
  explainRun: { right: "operate", path: ({ run }) => `/v1/runs/${run}/explain`, owner: "user", status: 200 },
  pauseRun: { right: "operate", path: ({ run }) => `/v1/runs/${run}/pause`, owner: "user", status: 200 },
  resumeRun: { right: "operate", path: ({ run }) => `/v1/runs/${run}/resume`, owner: "user", status: 200 },
  // A run that is still to be answered is not answered again, and one that nobody drives is not released.
  retryRun: {
    right: "operate",
    path: ({ run }) => `/v1/runs/${run}/retry`,
    body: () => ({}),
    owner: "user",
    status: 409,
  },
  releaseRun: { right: "operate", path: ({ run }) => `/v1/runs/${run}/release`, owner: "user", status: 409 },
  failRun: {
    right: "operate",
    path: ({ run }) => `/v1/runs/${run}/fail`,
    body: () => ({}),
    owner: "user",
    status: 200,
  },
  listObligations: { right: "operate", path: () => "/v1/obligations", owner: "nobody", status: 200 },
  getMetrics: { right: "operate", path: () => "/metrics", owner: "nobody", status: 200 },
  listStops: { right: "operate", path: () => "/v1/stops", owner: "nobody", status: 200 },
  createStop: {
    right: "operate",
    path: () => "/v1/stops",
    body: ({ conversation }) => ({ kind: "pause", scope: "conversation", id: conversation }),
    owner: "user",
    status: 201,
  },
  liftStop: { right: "operate", path: ({ stop }) => `/v1/stops/${stop}/lift`, owner: "tenant", status: 200 },
  cancelRun: { right: "write", path: ({ run }) => `/v1/runs/${run}/cancel`, owner: "user", status: 200 },
};

const OWNER = "u_owner";
const STRANGER = "u_stranger";

let world: ApiWorld;
let key: string;
let things: Things;
const NOTHING: Things = {
  agent: newId("agent"),
  conversation: newId("conversation"),
  run: newId("run"),
  hold: newId("hold"),
  stop: newId("stop"),
};

beforeAll(async () => {
  world = await ApiWorld.open();
  key = await world.key();
  things = await makeThings();
});

afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

async function makeThings(): Promise<Things> {
  const name = `agent-${newId("agent").slice(-12)}`;
  const agent = await world.ask<{ id: string }>("/v1/agents", { key, body: { name, model: "sim/quote" } });
  const as = { key, user: OWNER };
  const conversation = await world.ask<{ id: string }>("/v1/conversations", { ...as, body: { agent: agent.body.id } });
  const path = `/v1/conversations/${conversation.body.id}/messages`;
  const { body } = await world.ask<AcceptedMessage>(path, { ...as, body: { content: "a secret of its owner" } });
  const hold = await world.openHold(conversation.body.id);
  const lifted = { kind: "pause", scope: "agent", id: agent.body.id };
  const stop = await world.ask<{ id: string }>("/v1/stops", { key, body: lifted });
  await world.ask(`/v1/stops/${stop.body.id}/lift`, { key, method: "POST" });
  return {
    agent: agent.body.id,
    conversation: conversation.body.id,
    run: body.run.id,
    hold,
    stop: stop.body.id,
  };
}

function asked(operation: string, of: Things): Asked & { readonly path: string } {
  const access = ACCESS[operation] ?? expect.unreachable(`${operation} is not in the table`);
  const method = routes().get(operation)?.method ?? "GET";
  const body = access.body?.(of);
  return { path: access.path(of), method, ...(body === undefined ? {} : { body }) };
}

function routes() {
  return new Map(apiRoutes(world.services).map((route) => [route.operationId, route]));
}

async function ask(operation: string, of: Things, as: Asked): Promise<Told<Problem>> {
  const { path, ...request } = asked(operation, of);
  const response = await world.fetch(path, { ...request, ...as });
  const text = await response.text();
  const isProblem = response.headers.get("content-type")?.startsWith("application/problem+json") === true;
  // An answer that is no problem is only looked at by its status.
  return {
    status: response.status,
    headers: response.headers,
    body: (isProblem ? JSON.parse(text) : { text }) as Problem,
  };
}

/** What tells two refusals apart, apart from the request's own id and address. */
function shape({ status, headers, body }: Told<Problem>): object {
  const { requestId: _, instance: __, ...rest } = body;
  return { status, type: headers.get("content-type"), names: [...headers.keys()].toSorted(), rest };
}

const operations = Object.keys(ACCESS);
const guarded = operations.filter((operation) => ACCESS[operation]?.right !== null);
const owned = operations.filter((operation) => ACCESS[operation]?.owner !== "nobody");
const personal = operations.filter((operation) => ACCESS[operation]?.owner === "user");

describe("the table", () => {
  it("names every route of the API, and no other", () => {
    expect(operations.toSorted()).toEqual([...routes().keys()].toSorted());
  });

  it("agrees with the API about the right each needs", () => {
    for (const [operation, route] of routes()) {
      expect([operation, ACCESS[operation]?.right]).toEqual([operation, route.right]);
    }
  });

  it("has a body for every route that takes one, and owners for every route that names a thing", () => {
    for (const [operation, route] of routes()) {
      const access = ACCESS[operation];
      expect([operation, access?.body !== undefined]).toEqual([operation, route.body !== null]);
      const names = /\{(agent|conversation|run)\}/.test(route.path);
      if (names) expect([operation, access?.owner]).not.toEqual([operation, "nobody"]);
    }
  });
});

describe("whoever may", () => {
  it.each(operations)("is served by %s, and with its own right alone", async (operation) => {
    const right = ACCESS[operation]?.right ?? null;
    const rights: readonly Right[] = right === null ? [] : [right, "assert_actor"];
    const of = await makeThings();
    const as = right === null ? {} : { key: await world.key({ rights }), user: OWNER };
    expect((await ask(operation, of, as)).status).toBe(ACCESS[operation]?.status);
  });
});

describe("without a key", () => {
  it.each(guarded)("%s is refused", async (operation) => {
    for (const as of [{}, { key: "sbx_01234567890123456789012345" }, { headers: { authorization: "Basic eDp5" } }]) {
      const told = await ask(operation, things, as);
      expect([told.status, told.body.code]).toEqual([401, "unauthenticated"]);
    }
  });
});

describe("without the right", () => {
  it.each(guarded)("%s is refused, whatever it is asked about", async (operation) => {
    const needed = ACCESS[operation]?.right;
    const poor = await world.key({ rights: RIGHTS.filter((right) => right !== needed) });
    for (const of of [things, NOTHING]) {
      const told = await ask(operation, of, { key: poor });
      expect([told.status, told.body.code]).toEqual([403, "permission_denied"]);
    }
  });
});

describe("in another tenant", () => {
  it.each(owned)("%s finds exactly as much as of what does not exist", async (operation) => {
    const foreign = await world.key({ tenantId: "other" });
    const told = await ask(operation, things, { key: foreign });
    expect([told.status, told.body.code]).toEqual([404, "not_found"]);
    const nothing = await ask(operation, NOTHING, { key: foreign });
    const hide = (text: string) => text.replaceAll(things.agent, "an agent").replaceAll(NOTHING.agent, "an agent");
    expect(hide(JSON.stringify(shape(told)))).toBe(hide(JSON.stringify(shape(nothing))));
  });

  it.each(["listAgents", "listConversations", "listRuns"])("%s shows nothing", async (operation) => {
    const foreign = await world.key({ tenantId: "other" });
    const { body } = await world.ask<{ data: unknown }>(asked(operation, things).path, { key: foreign });
    expect(body.data).toEqual([]);
  });

  it("nothing changed by what was tried", async () => {
    const { body } = await world.ask<{ data: { content: string }[] }>(
      `/v1/conversations/${things.conversation}/messages`,
      { key },
    );
    expect(body.data.map(({ content }) => content)).toEqual(["a secret of its owner"]);
    expect((await world.ask(`/v1/runs/${things.run}`, { key })).body).toMatchObject({ status: "waiting" });
    expect((await world.ask(`/v1/conversations/${things.conversation}`, { key })).body).toMatchObject({ title: null });
    expect((await world.ask(`/v1/agents/${things.agent}`, { key })).body).toMatchObject({ revision: 1 });
  });
});

describe("as another end user", () => {
  it.each(personal)("%s finds exactly as much as of what does not exist", async (operation) => {
    const told = await ask(operation, things, { key, user: STRANGER });
    expect([told.status, told.body.code]).toEqual([404, "not_found"]);
    expect(shape(told)).toEqual(shape(await ask(operation, NOTHING, { key, user: STRANGER })));
  });

  it("what the end user's own things hold is not found by searching either", async () => {
    const path = "/v1/conversations?archived=all&q=secret";
    expect((await world.ask<{ data: unknown }>(path, { key, user: STRANGER })).body.data).toEqual([]);
    const foreign = await world.key({ tenantId: "other" });
    expect((await world.ask<{ data: unknown }>(path, { key: foreign })).body.data).toEqual([]);
    expect((await world.ask<{ data: unknown[] }>(path, { key, user: OWNER })).body.data).not.toEqual([]);
  });

  it.each(["listConversations", "listRuns"])("%s shows nothing", async (operation) => {
    const { body } = await world.ask<{ data: unknown }>(asked(operation, things).path, { key, user: STRANGER });
    expect(body.data).toEqual([]);
  });

  it("a conversation is not found through a list either", async () => {
    const path = `/v1/runs?conversation=${things.conversation}`;
    expect((await world.ask(path, { key, user: STRANGER })).body).toEqual({ data: [], nextCursor: null });
    expect((await world.ask<{ data: unknown[] }>(path, { key, user: OWNER })).body.data).toHaveLength(1);
  });

  it("agents are the tenant's, so they are seen", async () => {
    expect((await ask("getAgent", things, { key, user: STRANGER })).status).toBe(200);
  });
});

describe("as the end user, and as the key itself", () => {
  it.each(personal)("%s is served", async (operation) => {
    const of = await makeThings();
    expect((await ask(operation, of, { key, user: OWNER })).status).toBe(ACCESS[operation]?.status);
    expect((await ask(operation, await makeThings(), { key })).status).toBe(ACCESS[operation]?.status);
  });
});
