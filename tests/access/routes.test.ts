/**
 * Every route of the API, for every kind of caller. The routes come from the API itself: one that is missing from the
 * table beside this file fails the test that says so, and cannot be forgotten.
 */
import type { AcceptedMessage, Problem } from "@signalbox/contract";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { apiRoutes } from "../../packages/server/src/api/api-routes.ts";
import { RIGHTS, type Right } from "../../packages/server/src/api/caller.ts";
import { ACCESS, type Things } from "./access-table.ts";
import { ApiWorld, newId, type Asked, type Told } from "../setup/api-world.ts";
import { pinTool } from "../setup/pinned-tool.ts";

const OWNER = "u_owner";
const STRANGER = "u_stranger";

let world: ApiWorld;
let key: string;
let things: Things;
let spare: string | null = null;
const NOTHING: Things = {
  agent: newId("agent"),
  conversation: newId("conversation"),
  run: newId("run"),
  hold: newId("hold"),
  approval: newId("hold"),
  stop: newId("stop"),
  waitingCall: newId("toolCall"),
  webhook: newId("webhook"),
  delivery: newId("delivery"),
  policy: newId("policy"),
  tool: { name: "nowhere__nothing", digest: "0".repeat(64) },
  call: newId("toolCall"),
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
  const other = await world.ask<{ id: string }>("/v1/conversations", { ...as, body: { agent: agent.body.id } });
  await world.ask(`/v1/conversations/${other.body.id}/messages`, { ...as, body: { content: "pay it" } });
  const asked = await world.askAboutPayment(other.body.id);
  const lifted = { kind: "pause", scope: "conversation", id: conversation.body.id };
  const stop = await world.ask<{ id: string }>("/v1/stops", { key, body: lifted });
  await world.ask(`/v1/stops/${stop.body.id}/lift`, { key, method: "POST" });
  // A tenant may have so many webhooks and no more, and each case has one of its own.
  if (spare !== null) await world.ask(`/v1/webhooks/${spare}`, { key, method: "DELETE" });
  const hook = { url: "https://example.com/hooks", events: ["run.finished"] };
  const webhook = await world.ask<{ id: string }>("/v1/webhooks", { key, body: hook });
  // That of the first things is used throughout.
  spare = (things as Things | undefined) === undefined ? null : webhook.body.id;
  const tested = `/v1/webhooks/${webhook.body.id}/test`;
  const delivery = await world.ask<{ id: string }>(tested, { key, method: "POST" });
  const document = { version: 1, rules: [] };
  const policy = await world.ask<{ id: string }>("/v1/policies", { key, body: { document } });
  return {
    policy: policy.body.id,
    tool: await pinTool(world, key),
    call: await world.recordCall(body.run.id),
    agent: agent.body.id,
    conversation: conversation.body.id,
    run: body.run.id,
    hold,
    approval: asked.approval,
    stop: stop.body.id,
    waitingCall: await world.callForClient(body.run.id),
    webhook: webhook.body.id,
    delivery: delivery.body.id,
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

/** What a list shows. Obligations of an end user are there for as long as the run waits to be claimed. */
async function listed(operation: string, as: Asked): Promise<unknown> {
  const conversation = operation === "listObligations" ? await owing() : null;
  const { body } = await world.ask<{ data: unknown }>(asked(operation, things).path, as);
  if (conversation !== null) await world.ask(`/v1/conversations/${conversation}`, { key, method: "DELETE" });
  return body.data;
}

/** A conversation of the end user whose run waits to be claimed, for an hour. */
async function owing(): Promise<string> {
  const as = { key, user: OWNER };
  const { body } = await world.ask<{ id: string }>("/v1/conversations", { ...as, body: { agent: things.agent } });
  await world.ask(`/v1/conversations/${body.id}/messages`, { ...as, body: { content: "when?" } });
  await world.rows(
    "update signalbox.ownership set ready_at = ready_at - interval '1 hour' where conversation_id = $1 returning 1",
    [body.id],
  );
  return body.id;
}

async function metricsText(as: Asked): Promise<string> {
  return await (await world.fetch("/metrics", as)).text();
}

const PERSONAL_LISTS = [
  "listConversations",
  "listRuns",
  "listHolds",
  "listStops",
  "listObligations",
  "listEvents",
] as const;
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
      const names = [...route.path.matchAll(/\{([^}]*)\}/g)].map(([, name]) => name);
      const named = Object.keys(NOTHING).filter((name) => names.includes(name));
      // Error codes are nobody's; everything else that a path can name is a thing of the table.
      expect([operation, named]).toEqual([operation, names.filter((name) => name !== "code")]);
      if (named.length > 0) expect([operation, access?.owner]).not.toEqual([operation, "nobody"]);
    }
  });
});

describe("whoever may", () => {
  it.each(operations)("is served by %s, and with its own right alone", async (operation) => {
    const right = ACCESS[operation]?.right ?? null;
    const rights: readonly Right[] = right === null ? [] : [right, "assert_actor"];
    const of = await makeThings();
    const user = ACCESS[operation]?.keyOnly === true ? {} : { user: OWNER };
    const as = right === null ? {} : { key: await world.key({ rights }), ...user };
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

/** What is said without what the caller called it, which is said back. */
function withoutNames(told: unknown): string {
  const text = JSON.stringify(told)
    .replaceAll(things.agent, "an agent")
    .replaceAll(NOTHING.agent, "an agent")
    .replaceAll(things.tool.name, "a tool")
    .replaceAll(NOTHING.tool.name, "a tool");
  return text.replaceAll(/\b[a-z]+_[0-9a-f]{32}\b/g, "an id");
}

describe("in another tenant", () => {
  it.each(owned)("%s finds exactly as much as of what does not exist", async (operation) => {
    const foreign = await world.key({ tenantId: "other" });
    const told = await ask(operation, things, { key: foreign });
    expect([told.status, told.body.code]).toEqual([404, "not_found"]);
    const nothing = await ask(operation, NOTHING, { key: foreign });
    expect(withoutNames(shape(told))).toBe(withoutNames(shape(nothing)));
  });

  it.each(["listAgents", "listWebhooks", ...PERSONAL_LISTS])("%s shows nothing", async (operation) => {
    const foreign = await world.key({ tenantId: "other" });
    expect(await listed(operation, { key })).not.toEqual([]);
    expect(await listed(operation, { key: foreign })).toEqual([]);
  });

  it("what is owed is counted for those who may see it, and for nobody else", async () => {
    const conversation = await owing();
    const overdue = async (as: Asked) => /kind="admitted_run"\} (\d+)/.exec(await metricsText(as))?.[1];
    expect(await overdue({ key })).toBe("1");
    expect(await overdue({ key, user: OWNER })).toBe("1");
    expect(await overdue({ key, user: STRANGER })).toBe("0");
    expect(await overdue({ key: await world.key({ tenantId: "other" }) })).toBe("0");
    await world.ask(`/v1/conversations/${conversation}`, { key, method: "DELETE" });
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

describe("as any end user", () => {
  it.each(operations.filter((operation) => ACCESS[operation]?.keyOnly === true))(
    "%s is refused, whatever it is asked about",
    async (operation) => {
      for (const of of [things, NOTHING]) {
        const told = await ask(operation, of, { key, user: OWNER });
        expect([told.status, told.body.code]).toEqual([403, "permission_denied"]);
      }
    },
  );
});

describe("as another end user", () => {
  it.each(personal)("%s finds exactly as much as of what does not exist", async (operation) => {
    const told = await ask(operation, things, { key, user: STRANGER });
    expect([told.status, told.body.code]).toEqual([404, "not_found"]);
    const nothing = await ask(operation, NOTHING, { key, user: STRANGER });
    expect(withoutNames(shape(told))).toBe(withoutNames(shape(nothing)));
  });

  it("what the end user's own things hold is not found by searching either", async () => {
    const path = "/v1/conversations?archived=all&q=secret";
    expect((await world.ask<{ data: unknown }>(path, { key, user: STRANGER })).body.data).toEqual([]);
    const foreign = await world.key({ tenantId: "other" });
    expect((await world.ask<{ data: unknown }>(path, { key: foreign })).body.data).toEqual([]);
    expect((await world.ask<{ data: unknown[] }>(path, { key, user: OWNER })).body.data).not.toEqual([]);
  });

  it.each(PERSONAL_LISTS)("%s shows nothing", async (operation) => {
    expect(await listed(operation, { key, user: OWNER })).not.toEqual([]);
    expect(await listed(operation, { key, user: STRANGER })).toEqual([]);
  });

  it.each(["agent", "tenant"])(
    "a pause of the %s is neither seen nor lifted, whoever the end user is",
    async (scope) => {
      const pause = { kind: "pause", scope, ...(scope === "agent" ? { id: things.agent } : {}) };
      const { body } = await world.ask<{ id: string }>("/v1/stops", { key, body: pause });
      for (const user of [OWNER, STRANGER]) {
        for (const operation of ["getStop", "liftStop"]) {
          const told = await ask(operation, { ...things, stop: body.id }, { key, user });
          const nothing = await ask(operation, NOTHING, { key, user });
          expect(withoutNames(shape(told))).toBe(withoutNames(shape(nothing)));
        }
        const seen = await listed("listStops", { key, user });
        expect(seen).not.toContainEqual(expect.objectContaining({ id: body.id }));
      }
      expect((await world.ask(`/v1/stops/${body.id}`, { key })).body).toMatchObject({ liftedAt: null });
      expect((await ask("liftStop", { ...things, stop: body.id }, { key })).status).toBe(200);
    },
  );

  it("a pause of the end user's own run is seen and lifted by nobody but its owner and the tenant", async () => {
    const of = await makeThings();
    const pause = { kind: "pause", scope: "run", id: of.run };
    const { body } = await world.ask<{ id: string }>("/v1/stops", { key, user: OWNER, body: pause });
    const stop = { ...of, stop: body.id };
    expect((await ask("liftStop", stop, { key, user: STRANGER })).status).toBe(404);
    expect(await listed("listStops", { key, user: OWNER })).toContainEqual(
      expect.objectContaining({ id: body.id, liftedAt: null }),
    );
    expect((await ask("liftStop", stop, { key, user: OWNER })).status).toBe(200);
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
