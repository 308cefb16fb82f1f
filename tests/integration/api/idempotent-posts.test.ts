/** Every POST of the API description takes an `Idempotency-Key`; an address that is added is missing here until it does. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiWorld, newId, type Told } from "../../setup/api-world.ts";
import { pinTool } from "../../setup/pinned-tool.ts";
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

interface Post {
  readonly path: string;
  readonly body?: object;
  /** The same key must not pass for this one: another body, or where there is none, another address. */
  readonly other: { readonly path?: string; readonly body?: object };
}

async function conversation(): Promise<string> {
  const { body } = await world.ask<{ id: string }>("/v1/conversations", { key, body: { agent: "support" } });
  return body.id;
}

async function sent(conversationId: string): Promise<string> {
  const path = `/v1/conversations/${conversationId}/messages`;
  const { body } = await world.ask<{ run: { id: string } }>(path, { key, body: { content: "hello" } });
  return body.run.id;
}

async function run(): Promise<string> {
  return sent(await conversation());
}

async function ownedRun(): Promise<string> {
  const id = await conversation();
  const owned = await sent(id);
  await world.claim(id);
  return owned;
}

async function failedRun(): Promise<string> {
  const id = await run();
  await world.ask(`/v1/runs/${id}/fail`, { key, body: {} });
  return id;
}

async function pausedRun(): Promise<string> {
  const id = await run();
  await world.ask(`/v1/runs/${id}/pause`, { key, method: "POST" });
  return id;
}

async function stop(): Promise<string> {
  const body = { kind: "pause", scope: "conversation", id: await conversation() };
  return (await world.ask<{ id: string }>("/v1/stops", { key, body })).body.id;
}

async function policy(): Promise<string> {
  const body = { document: { version: 1, rules: [] } };
  return (await world.ask<{ id: string }>("/v1/policies", { key, body })).body.id;
}

async function hold(): Promise<string> {
  const id = await conversation();
  await sent(id);
  return world.openHold(id);
}

async function payment(): Promise<{ readonly approval: string; readonly toolCall: string }> {
  const id = await conversation();
  await sent(id);
  return world.askAboutPayment(id);
}

/** A call whose outcome nobody knows. */
async function lostCall(): Promise<string> {
  const { toolCall } = await payment();
  const lost =
    "update signalbox.tool_call set state = 'unknown', started_at = clock_timestamp(), process = 1 where id = $1";
  await world.rows(lost, [toolCall]);
  return toolCall;
}

async function webhook(): Promise<string> {
  const body = { url: "https://example.com/hooks", events: ["run.finished"] };
  return (await world.ask<{ id: string }>("/v1/webhooks", { key, body })).body.id;
}

async function delivery(): Promise<string> {
  const place = `/v1/webhooks/${await webhook()}`;
  const { body } = await world.ask<{ id: string }>(`${place}/test`, { key, method: "POST" });
  return `${place}/deliveries/${body.id}`;
}

async function without(verb: string, prepare: () => Promise<string>): Promise<Post> {
  const [id, another] = [await prepare(), await prepare()];
  return { path: verb.replace("*", id), other: { path: verb.replace("*", another) } };
}

const POSTS: Readonly<Record<string, () => Promise<Post>>> = {
  createAgent: async () => ({
    path: "/v1/agents",
    body: { name: `a${Date.now()}`, model: "sim/quote" },
    other: { body: { name: "another", model: "sim/quote" } },
  }),
  createConversation: async () => ({
    path: "/v1/conversations",
    body: { agent: "support" },
    other: { body: { agent: "support", title: "another" } },
  }),
  forkConversation: async () => ({
    path: `/v1/conversations/${await conversation()}/fork`,
    body: {},
    other: { path: `/v1/conversations/${await conversation()}/fork` },
  }),
  sendMessage: async () => ({
    path: `/v1/conversations/${await conversation()}/messages`,
    body: { content: "hello" },
    other: { body: { content: "bye" } },
  }),
  cancelRun: () => without("/v1/runs/*/cancel", run),
  retryRun: async () => ({ path: `/v1/runs/${await failedRun()}/retry`, body: {}, other: { body: { force: true } } }),
  failRun: async () => ({ path: `/v1/runs/${await run()}/fail`, body: {}, other: { body: { force: true } } }),
  releaseRun: () => without("/v1/runs/*/release", ownedRun),
  pauseRun: () => without("/v1/runs/*/pause", run),
  resumeRun: () => without("/v1/runs/*/resume", pausedRun),
  createStop: async () => ({
    path: "/v1/stops",
    body: { kind: "pause", scope: "conversation", id: await conversation() },
    other: { body: { kind: "stop", scope: "conversation", id: await conversation() } },
  }),
  approveTool: async () => {
    const { name, digest } = await pinTool(world, key);
    const other = await pinTool(world, key);
    return {
      path: `/v1/tools/${name}/approve`,
      body: { digest },
      other: { path: `/v1/tools/${other.name}/approve`, body: { digest: other.digest } },
    };
  },
  classifyTool: async () => ({
    path: `/v1/tools/${(await pinTool(world, key)).name}/classify`,
    body: { effect: "read" },
    other: { body: { effect: "write" } },
  }),
  createPolicy: async () => ({
    path: "/v1/policies",
    body: { document: { version: 1, rules: [] } },
    other: { body: { document: { version: 1, description: "another", rules: [] } } },
  }),
  activatePolicy: async () => ({
    path: `/v1/policies/${await policy()}/activate`,
    body: {},
    other: { path: "/v1/policies/default/activate" },
  }),
  explainPolicy: async () => ({
    path: "/v1/policies/default/explain",
    body: { toolCallId: await world.recordCall(await run()) },
    other: { path: "/v1/policies/current/explain" },
  }),
  simulatePolicy: async () => ({
    path: "/v1/policies/default/simulate",
    body: { tool: "shop__refund" },
    other: { body: { tool: "shop__cancel" } },
  }),
  backTestPolicy: async () => ({
    path: "/v1/policies/default/back-test",
    body: {},
    other: { body: { days: 1 } },
  }),
  liftStop: () => without("/v1/stops/*/lift", stop),
  decideHold: async () => ({
    path: `/v1/holds/${await hold()}/decision`,
    body: { decision: "respond", response: { answer: "4" } },
    other: { body: { decision: "respond", response: { answer: "5" } } },
  }),
  decideApproval: async () => ({
    path: `/v1/approvals/${(await payment()).approval}/decision`,
    body: { decision: "approve", digest: "d" },
    other: { body: { decision: "reject", digest: "d" } },
  }),
  reconcileToolCall: async () => ({
    path: `/v1/tool-calls/${await lostCall()}/reconcile`,
    body: { outcome: "succeeded", result: "paid" },
    other: { body: { outcome: "failed" } },
  }),
  tellResult: async () => ({
    path: `/v1/tool-calls/${await world.callForClient(await run())}/result`,
    body: { content: "done" },
    other: { body: { content: "not done" } },
  }),
  createWebhook: async () => ({
    path: "/v1/webhooks",
    body: { url: "https://example.com/hooks", events: ["run.finished"] },
    other: { body: { url: "https://example.com/other", events: ["run.finished"] } },
  }),
  rotateWebhook: async () => ({
    path: `/v1/webhooks/${await webhook()}/rotate`,
    body: {},
    other: { path: `/v1/webhooks/${await webhook()}/rotate` },
  }),
  testWebhook: () => without("/v1/webhooks/*/test", webhook),
  redeliver: () => without("*/redeliver", delivery),
};

function post(asked: { readonly path: string; readonly body?: object }, idempotencyKey: string): Promise<Told> {
  const { path, body } = asked;
  const headers = { "idempotency-key": idempotencyKey };
  return world.ask(path, { key, method: "POST", headers, ...(body === undefined ? {} : { body }) });
}

const isReplay = ({ headers }: Told): boolean => headers.get("idempotent-replayed") === "true";
/** A secret is shown once, whatever is asked again. */
const shown = ({ status, body, headers }: Told): unknown => [
  status,
  { ...body, ...(body.secret === undefined ? {} : { secret: "shown once" }) },
  headers.get("location"),
];

it("no POST of the description is left out, and each names the header", async () => {
  interface Described {
    readonly operationId: string;
    readonly parameters?: readonly { readonly in: string; readonly name: string }[];
  }
  const { body } = await world.ask<{ paths: Record<string, { post?: Described }> }>("/openapi.json");
  const posts = Object.values(body.paths).flatMap((methods) => methods.post ?? []);
  expect(posts.map(({ operationId }) => operationId).toSorted()).toEqual(Object.keys(POSTS).toSorted());
  for (const { operationId, parameters = [] } of posts) {
    const headers = parameters.filter((each) => each.in === "header").map(({ name }) => name);
    expect([operationId, ...headers]).toEqual([operationId, "Idempotency-Key"]);
  }
});

describe.each(Object.keys(POSTS))("%s", (operation) => {
  it("is done once and answered twice alike, and is no other request's", async () => {
    const asked = await POSTS[operation]!();
    const first = await post(asked, `${operation}-1`);
    expect([200, 201, 202]).toContain(first.status);
    const second = await post(asked, `${operation}-1`);
    expect(shown(second)).toEqual(shown(first));
    expect([isReplay(first), isReplay(second)]).toEqual([false, true]);
    const { path = asked.path, body = asked.body } = asked.other;
    const other = { path, ...(body === undefined ? {} : { body }) };
    expectProblem(await world.refused(path, { key, method: "POST", ...askedWith(other, `${operation}-1`) }), REUSED);
  });

  it("at once is done once", async () => {
    const asked = await POSTS[operation]!();
    const told = await Promise.all(Array.from({ length: 4 }, () => post(asked, `${operation}-2`)));
    expect(told.filter(isReplay)).toHaveLength(3);
    for (const each of told) expect(shown(each)).toEqual(shown(told[0]!));
  });
});

const REUSED = "idempotency_key_reused";

function askedWith({ body }: { readonly body?: object }, idempotencyKey: string) {
  return { headers: { "idempotency-key": idempotencyKey }, ...(body === undefined ? {} : { body }) };
}

describe("a key of a command", () => {
  it("counts its end of a run once: a second release does not take it from the next owner", async () => {
    const id = await conversation();
    const owned = await sent(id);
    await world.claim(id);
    await post({ path: `/v1/runs/${owned}/release` }, "release");
    const next = await world.claim(id);
    expect(isReplay(await post({ path: `/v1/runs/${owned}/release` }, "release"))).toBe(true);
    const [row] = await world.rows<{ generation: string }>(
      "select generation from signalbox.ownership where conversation_id = $1",
      [id],
    );
    expect(Number(row?.generation)).toBe(next.claim.generation);
  });

  it("is not spent by a refusal", async () => {
    const id = await conversation();
    await sent(id);
    const path = `/v1/holds/${await world.openHold(id, { kind: "approval", digest: "shown" })}/decision`;
    const stale = { decision: "approve", digest: "another" };
    const refused = await post({ path, body: stale }, "decision");
    expect([refused.status, refused.body.code]).toEqual([409, "approval_changed"]);
    const decided = await post({ path, body: { ...stale, digest: "shown" } }, "decision");
    expect([decided.status, decided.body.outcome]).toEqual([200, "decided"]);
  });

  it("keeps what a refusal found out", async () => {
    const holdId = await hold();
    await world.rows("update signalbox.hold set expires_at = signalbox.clock() where id = $1", [holdId]);
    const body = { decision: "respond", response: {} };
    const refused = await post({ path: `/v1/holds/${holdId}/decision`, body }, "late");
    expect([refused.status, refused.body.code]).toEqual([409, "hold_closed"]);
    const [row] = await world.rows("select state from signalbox.hold where id = $1", [holdId]);
    expect(row).toEqual({ state: "expired" });
  });

  it("leaves nothing where its answer could not be kept", async () => {
    const id = await run();
    const state = async () => (await world.ask(`/v1/runs/${id}`, { key })).body.status;
    const before = await state();
    const cut = "create rule no_answer as on insert to signalbox.idempotency do instead select 1 / (new.status - 200)";
    await world.rows(cut);
    try {
      expect((await post({ path: `/v1/runs/${id}/fail`, body: {} }, "cut")).status).toBe(500);
      expect(await state()).toBe(before);
    } finally {
      await world.rows("drop rule no_answer on signalbox.idempotency");
    }
    const again = await post({ path: `/v1/runs/${id}/fail`, body: {} }, "cut");
    expect([again.status, again.body.status, isReplay(again)]).toEqual([200, "failed", false]);
  });

  it("rings for what it ended: a stop with a key ends what it covers before it is answered", async () => {
    const id = await conversation();
    const stopped = await sent(id);
    const body = { kind: "stop", scope: "conversation", id };
    expect((await post({ path: "/v1/stops", body }, "ends")).status).toBe(201);
    expect((await world.ask(`/v1/runs/${stopped}`, { key })).body.status).toBe("cancelled");
  });
});

describe("a message's id from its client", () => {
  it("is the id it has", async () => {
    const path = `/v1/conversations/${await conversation()}/messages`;
    const id = newId("message");
    const told = await world.ask<{ message: { id: string } }>(path, { key, body: { content: "hello", id } });
    expect(told.body.message.id).toBe(id);
    const listed = await world.ask<{ data: { id: string }[] }>(path, { key });
    expect(listed.body.data.map((each) => each.id)).toContain(id);
  });

  it("names one message, whichever key it comes with", async () => {
    const path = `/v1/conversations/${await conversation()}/messages`;
    const id = newId("message");
    await world.ask(path, { key, body: { content: "hello", id } });
    const body = { content: "bye", id };
    expectProblem(await world.refused(path, { key, body }), REUSED);
    expectProblem(await world.refused(path, { key, ...askedWith({ body }, "another-key") }), REUSED);
  });
});
