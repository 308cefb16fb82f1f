/** What operators ask through the public API, and how it is refused. */
import type { AcceptedMessage, Conversation, Explanation, Obligations, Run, Stop } from "@signalbox/contract";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiWorld, newId } from "../../setup/api-world.ts";

let world: ApiWorld;
let key: string;

beforeAll(async () => {
  world = await ApiWorld.open();
  key = await world.key();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

async function sent(as: { readonly user?: string } = {}) {
  const name = `agent-${newId("agent").slice(-12)}`;
  const agent = await world.ask<{ id: string }>("/v1/agents", { key, body: { name, model: "sim/quote" } });
  const { body } = await world.ask<Conversation>("/v1/conversations", { key, ...as, body: { agent: name } });
  const path = `/v1/conversations/${body.id}/messages`;
  const accepted = await world.ask<AcceptedMessage>(path, {
    key,
    ...as,
    body: { content: "hello", metadata: { a: "b" } },
  });
  return { agent: agent.body.id, agentName: name, conversation: body.id, run: accepted.body.run.id, path };
}

const post = <Body = Run & { code: string; detail: string }>(path: string, body?: object, as: object = {}) =>
  world.ask<Body>(path, { key, method: "POST", ...(body === undefined ? {} : { body }), ...as });
const explain = async (run: string) => (await world.ask<Explanation>(`/v1/runs/${run}/explain`, { key })).body;

/** A payment that this run made. */
async function recordCall(run: string, state: string): Promise<void> {
  await world.rows(
    `insert into signalbox.tool_call (id, tenant_id, run_id, conversation_id, model_call_id, ordinal, tool_use_id, name,
       server, tool, title, effect, arguments, arguments_digest, state, generation, process, result, proposed_at, started_at)
     select $1, r.tenant_id, r.id, r.conversation_id, 'mc_1', 0, 'toolu_1', 'till__pay', 'till', 'pay', 'Pay', 'write',
       '{}', '', $3, 1, 1, '{}', signalbox.clock(), signalbox.clock()
     from signalbox.run r where r.id = $2`,
    [newId("toolCall"), run, state],
  );
}

describe("explain", () => {
  it("says where a run stands, from the queue to its end", async () => {
    const { run, conversation, path } = await sent();
    const queued = await world.ask<AcceptedMessage>(path, { key, body: { content: "and then" } });
    expect(await explain(run)).toMatchObject({ state: "admitted", owner: null });
    expect((await explain(run)).next).toContain("langgraph");
    expect(await explain(queued.body.run.id)).toMatchObject({ state: "queued", queuePlace: 1 });
    const ownership = await world.claim(conversation);
    const running = await explain(run);
    expect(running).toMatchObject({
      state: "running",
      generation: ownership.claim.generation,
      owner: { leaseHeld: true, present: true, dead: false },
    });
    expect(running.owner?.leaseAgeMs).toBeGreaterThanOrEqual(0);
    await post(`/v1/runs/${run}/pause`);
    expect((await explain(run)).stops).toMatchObject([{ kind: "pause", scope: "run" }]);
    await post(`/v1/runs/${run}/cancel`);
    expect((await explain(run)).summary).toContain("end was asked for");
    await post(`/v1/runs/${run}/fail`, {});
    expect((await explain(run)).summary).toContain("ended");
  });
});

describe("retry", () => {
  it("answers the message of a failed run again, as a run that says so", async () => {
    const { run, conversation } = await sent();
    expect((await post(`/v1/runs/${run}/retry`, {})).body.code).toBe("command_refused");
    await post(`/v1/runs/${run}/fail`, {});
    const headers = { "idempotency-key": newId("request") };
    const again = await post<AcceptedMessage>(`/v1/runs/${run}/retry`, {}, { headers });
    expect(again.status).toBe(202);
    expect(again.body).toMatchObject({
      accepted: "started",
      message: { content: "hello", metadata: { a: "b" }, conversationId: conversation },
      run: { retryOf: run },
    });
    expect(again.body.run.id).not.toBe(run);
    const replayed = await post<AcceptedMessage>(`/v1/runs/${run}/retry`, {}, { headers });
    expect(replayed.body.run.id).toBe(again.body.run.id);
    expect(replayed.headers.get("idempotent-replayed")).toBe("true");
    // Noted with the message, once, and not where there is no message.
    const noted = await world.rows<{ told: string }>(
      "select convert_from(bytes, 'UTF8') as told from signalbox.audit_pending where action = 'run_retried'",
    );
    expect(noted.map(({ told }) => JSON.parse(told) as unknown)).toEqual([
      expect.objectContaining({ runId: run, facts: { force: false, newRunId: again.body.run.id } }),
    ]);
    expect((await world.ask<Run>(`/v1/runs/${run}`, { key })).body).toMatchObject({ status: "failed", retryOf: null });
  });

  it("is done once, however many ask at the same time", async () => {
    const { run } = await sent();
    await post(`/v1/runs/${run}/fail`, {});
    const told = await Promise.all(Array.from({ length: 6 }, () => post<AcceptedMessage>(`/v1/runs/${run}/retry`, {})));
    const accepted = told.filter(({ status }) => status === 202);
    expect(accepted).toHaveLength(1);
    const again = accepted[0]!.body.run.id;
    const refused = await post(`/v1/runs/${run}/retry`, { force: true });
    expect([refused.body.code, refused.body.detail]).toEqual([
      "command_refused",
      `The run is being answered again already, by ${again}.`,
    ]);
    // One that ended without an answer stands in nobody's way.
    await post(`/v1/runs/${again}/fail`, {});
    expect((await post<AcceptedMessage>(`/v1/runs/${run}/retry`, {})).status).toBe(202);
  });

  it.each(["succeeded", "unknown", "executing"])("asks for force where a call with an effect is %s", async (state) => {
    const { run } = await sent();
    await post(`/v1/runs/${run}/fail`, { force: true });
    await recordCall(run, state);
    const refused = await post(`/v1/runs/${run}/retry`, {});
    expect([refused.status, refused.body.code]).toEqual([409, "command_refused"]);
    expect(refused.body.detail).toContain("With force");
    expect((await post<AcceptedMessage>(`/v1/runs/${run}/retry`, { force: true })).status).toBe(202);
  });

  it("takes no field that does not exist", async () => {
    const { run } = await sent();
    expect((await post(`/v1/runs/${run}/retry`, { forced: true })).body.code).toBe("field_unknown");
  });
});

describe("a stop", () => {
  it.each(["stop", "pause"])("of kind %s is not put over a run that has ended", async (kind) => {
    const { run } = await sent();
    await post(`/v1/runs/${run}/fail`, {});
    const refused = await post("/v1/stops", { kind, scope: "run", id: run });
    expect([refused.status, refused.body.code]).toEqual([409, "command_refused"]);
  });
});

describe("fail and release", () => {
  it("say why they do not", async () => {
    const { run } = await sent();
    const release = await post(`/v1/runs/${run}/release`);
    expect([release.status, release.body.code]).toEqual([409, "command_refused"]);
    expect(release.body.detail).toContain("admitted");
    expect((await post(`/v1/runs/${run}/fail`, {})).body).toMatchObject({ status: "failed", reason: "operator_stop" });
    expect((await post(`/v1/runs/${run}/fail`, {})).body.code).toBe("command_refused");
    expect((await post(`/v1/runs/${run}/pause`)).body.code).toBe("command_refused");
  });
});

describe("stops", () => {
  it("end what they cover, are listed, keep new messages out and are lifted", async () => {
    const { agentName, run, path } = await sent();
    const body = { kind: "stop", scope: "agent", id: agentName, reason: "it misbehaves" };
    const created = await post<Stop>("/v1/stops", body);
    expect(created.status).toBe(201);
    expect(created.body).toMatchObject({ kind: "stop", scope: "agent", reason: "it misbehaves", liftedAt: null });
    expect((await post<Stop>("/v1/stops", body)).status).toBe(200);
    expect((await world.ask<Run>(`/v1/runs/${run}`, { key })).body).toMatchObject({
      status: "cancelled",
      reason: "operator_stop",
    });
    const refused = await world.refused(path, { key, body: { content: "again" } });
    expect([refused.status, refused.body.code]).toEqual([403, "operator_stopped"]);
    const list = await world.ask<{ data: Stop[] }>("/v1/stops", { key });
    expect(list.body.data.map(({ id }) => id)).toContain(created.body.id);
    const lifted = await post<Stop>(`/v1/stops/${created.body.id}/lift`);
    expect(lifted.body.liftedAt).not.toBeNull();
    const standing = await world.ask<{ data: Stop[] }>("/v1/stops", { key });
    expect(standing.body.data.map(({ id }) => id)).not.toContain(created.body.id);
    expect((await world.ask(path, { key, body: { content: "again" } })).status).toBe(202);
  });

  it.each([
    [{ kind: "stop", scope: "tenant", id: "default" }, 400],
    [{ kind: "stop", scope: "run" }, 400],
    [{ kind: "halt", scope: "run", id: "x" }, 400],
    [{ kind: "stop", scope: "run", id: newId("run") }, 404],
    [{ kind: "stop", scope: "agent", id: "nobody" }, 404],
  ])("refuses %j with %d", async (body, status) => {
    expect((await post("/v1/stops", body)).status).toBe(status);
  });

  it("of an agent or a tenant are not for whoever speaks for an end user", async () => {
    const { agent } = await sent();
    const told = await post("/v1/stops", { kind: "pause", scope: "agent", id: agent }, { user: "u_1" });
    expect([told.status, told.body.code]).toEqual([403, "permission_denied"]);
  });
});

describe("obligations", () => {
  it("list what was recorded and is not confirmed, and count what is overdue for Prometheus", async () => {
    const { run } = await sent({ user: "u_owes" });
    const list = await world.ask<Obligations>("/v1/obligations", { key, user: "u_owes" });
    expect(list.body.data).toMatchObject([{ kind: "admitted_run", runId: run }]);
    const old = await world.ask<Obligations>("/v1/obligations?olderThanMs=3600000", { key });
    expect(old.body.data).toEqual([]);
    expect((await world.refused("/v1/obligations?olderThanMs=soon", { key })).status).toBe(400);
    const metrics = await world.fetch("/metrics", { key });
    expect(metrics.headers.get("content-type")).toContain("text/plain");
    expect(await metrics.text()).toContain('signalbox_obligations_overdue{kind="admitted_run"} 0');
  });
});
