import type { AcceptedMessage, AnsweredMessage, Conversation } from "@signalbox/contract";
import type { Ownership } from "@signalbox/core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiWorld, newId, type Asked } from "../../setup/api-world.ts";
import { finishRun } from "../store/record-parts.ts";
import { auditOf } from "./audit-of.ts";
import { expectProblem } from "./problems.ts";

interface Page<T> {
  readonly data: readonly T[];
  readonly nextCursor: string | null;
}

let world: ApiWorld;
let key: string;

beforeAll(async () => {
  world = await ApiWorld.open();
  key = await world.key();
  await world.ask("/v1/agents", { key, body: { name: "support", model: "sim/quote" } });
  await world.ask("/v1/agents", { key, body: { name: "sales", model: "sim/quote" } });
});

afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

async function converse(given: object = {}, asked: Asked = {}): Promise<string> {
  const body = { agent: "support", ...given };
  return (await world.ask<Conversation>("/v1/conversations", { key, body, ...asked })).body.id;
}

function show(id: string, asked: Asked = {}) {
  return world.ask<Conversation>(`/v1/conversations/${id}`, { key, ...asked });
}

function change(id: string, body: object) {
  return world.ask<Conversation>(`/v1/conversations/${id}`, { key, method: "PATCH", body });
}

function remove(id: string, asked: Asked = {}) {
  return world.ask<Conversation>(`/v1/conversations/${id}`, { key, method: "DELETE", ...asked });
}

function send(id: string, content = "hello", asked: Asked = {}) {
  return world.ask<AcceptedMessage>(`/v1/conversations/${id}/messages`, { key, body: { content }, ...asked });
}

async function list(query: string, asked: Asked = {}): Promise<readonly string[]> {
  const { status, body } = await world.ask<Page<Conversation>>(`/v1/conversations?${query}`, { key, ...asked });
  expect(status).toBe(200);
  return body.data.map(({ id }) => id);
}

async function finish(ownership: Ownership, text: string | null): Promise<void> {
  if (text === null) await finishRun(ownership, { answer: null, outcome: "cancelled", reason: "user_cancel" });
  else await finishRun(ownership, { answer: { messageId: newId("message"), text, partial: false } });
}

describe("changing a conversation", () => {
  it("changes what is given and nothing else, and is audited without what was said", async () => {
    const id = await converse({ title: "old", metadata: { a: "1" } });
    const before = (await show(id)).body;
    const { updatedAt, ...renamed } = (await change(id, { title: "new" })).body;
    expect(renamed).toEqual({ ...before, title: "new", updatedAt: undefined });
    expect(updatedAt >= before.updatedAt).toBe(true);
    expect((await change(id, { metadata: { b: "2" } })).body).toMatchObject({ title: "new", metadata: { b: "2" } });
    expect((await change(id, { title: null })).body).toMatchObject({ title: null, metadata: { b: "2" } });
    await change(id, {});
    await change(id, { title: null, metadata: { b: "2" }, archived: false });
    const audit = (await auditOf(world, "conversation_changed")).filter((entry) => entry.conversationId === id);
    expect(audit.map(({ facts }) => facts)).toEqual([{ title: true }, { metadata: true }, { title: true }]);
  });

  it.each([
    [{ colour: "red" }, "field_unknown", "/colour"],
    [{ agent: "sales" }, "field_unknown", "/agent"],
    [{ title: "x".repeat(201) }, "invalid_request", "/title"],
    [{ archived: "yes" }, "invalid_request", "/archived"],
    [{ metadata: { a: 1 } }, "invalid_request", "/metadata/a"],
  ])("with %j is refused as %s, naming %s", async (body, code, pointer) => {
    const id = await converse();
    const told = await change(id, body);
    expectProblem(told, code);
    expect(told.body).toMatchObject({ errors: [{ pointer }] });
  });
});

describe("the archive", () => {
  it("is left out of lists that do not ask for it, and a message takes a conversation out of it", async () => {
    const [kept, put] = [await converse({ agent: "sales" }), await converse({ agent: "sales" })];
    expect((await change(put, { archived: true })).body.archived).toBe(true);
    expect(await list("agent=sales")).toEqual([kept]);
    expect(await list("agent=sales&archived=true")).toEqual([put]);
    expect(await list("agent=sales&archived=all")).toEqual([put, kept]);
    expect((await send(put)).status).toBe(202);
    expect((await show(put)).body.archived).toBe(false);
    const audit = (await auditOf(world, "conversation_changed")).filter((entry) => entry.conversationId === put);
    expect(audit.map(({ facts }) => facts)).toEqual([{ archived: true }, { archived: false }]);
  });
});

describe("finding conversations", () => {
  it("looks for beginnings of words in titles and messages, all of them, in any order", async () => {
    const titled = await converse({ title: "Rückerstattung für Ørsted" });
    const spoken = await converse();
    await send(spoken, "My zeppelin ticket was lost; it's order ZQ-77, café 東京 please");
    expect(await list("q=r%C3%BCckerst")).toEqual([titled]);
    expect(await list("q=%C3%B8rsted+r%C3%BCck")).toEqual([titled]);
    expect(await list("q=ZEPPEL")).toEqual([spoken]);
    expect(await list("q=ticket+zeppelin")).toEqual([spoken]);
    expect(await list("q=zq-77")).toEqual([spoken]);
    expect(await list("q=caf%C3%A9")).toEqual([spoken]);
    expect(await list("q=zeppelin+airship")).toEqual([]);
    expect(await list("q=zeppelin&agent=sales")).toEqual([]);
    expect(await list("q=zeppelin&agent=nobody")).toEqual([]);
    await change(spoken, { archived: true });
    expect(await list("q=zeppelin")).toEqual([]);
    expect(await list("q=zeppelin&archived=all")).toEqual([spoken]);
  });

  it("shows nobody what is another's", async () => {
    const body = { agent: "support", title: "submarine" };
    const mine = (await world.ask<Conversation>("/v1/conversations", { key, user: "u_1", body })).body.id;
    await send(mine, "periscope", { user: "u_1" });
    for (const word of ["submarine", "periscope"]) {
      expect(await list(`q=${word}`, { user: "u_1" })).toEqual([mine]);
      expect(await list(`q=${word}`)).toEqual([mine]);
      expect(await list(`q=${word}`, { user: "u_2" })).toEqual([]);
      expect(await list(`q=${word}`, { key: await world.key({ tenantId: "other" }) })).toEqual([]);
    }
  });

  it.each(["' or 1=1 --", "a:* | b", "\\", "!!!zebra & (", "%00zebra", "'':* <-> \"", "\u0001default"])(
    "takes %j as words, never as a query",
    async (text) => {
      const { status, body } = await world.ask(`/v1/conversations?q=${encodeURIComponent(text)}`, { key });
      expect([200, 400]).toContain(status);
      if (status === 400) expect(body).toMatchObject({ code: "invalid_request", errors: [{ pointer: "q" }] });
    },
  );

  it("pages through many matches as through few, in either order", async () => {
    const ids: string[] = [];
    for (let at = 0; at < 5; at += 1) ids.push(await converse({ title: `walrus ${at}` }));
    for (const order of ["asc", "desc"]) {
      const found: string[] = [];
      let cursor: string | null = "";
      while (cursor !== null) {
        const next: string = cursor === "" ? "" : `&cursor=${cursor}`;
        const { body }: { body: Page<Conversation> } = await world.ask<Page<Conversation>>(
          `/v1/conversations?q=walrus&limit=2&order=${order}${next}`,
          { key },
        );
        found.push(...body.data.map(({ id }) => id));
        cursor = body.nextCursor;
      }
      expect(found).toEqual(order === "asc" ? ids : ids.toReversed());
    }
  });
});

describe("deleting a conversation", () => {
  it("that nothing runs in leaves a tombstone, at once and for good", async () => {
    const id = await converse({ title: "secret plan", metadata: { a: "secret" } });
    const { body } = await send(id, "a secret");
    const ownership = await world.claim(id);
    await finish(ownership, "the secret answer");
    expect((await remove(id)).status).toBe(204);
    expect((await remove(id)).status).toBe(204);
    const nothing = newId("conversation");
    for (const path of ["", "/messages", "/runs", "/events?follow=false"]) {
      const told = await world.refused(`/v1/conversations/${id}${path}`, { key });
      expectProblem(told, "not_found");
    }
    expectProblem(await send(id), "not_found");
    expectProblem(await change(id, { title: "x" }), "not_found");
    expectProblem(await world.refused(`/v1/runs/${body.run.id}`, { key }), "not_found");
    expectProblem(await remove(nothing), "not_found");
    expect(await list("archived=all&q=secret")).toEqual([]);
    expect(await list("archived=all&limit=200")).not.toContain(id);
    expect((await auditOf(world, "conversation_deleted")).map((entry) => entry.conversationId)).toContain(id);
  });

  it("cancels what runs and waits, refuses messages meanwhile, and is gone when the run has ended", async () => {
    const id = await converse();
    const [active, waiting] = [await send(id), await send(id)];
    const ownership = await world.claim(id);
    const asked = await remove(id);
    expect(asked.status).toBe(202);
    expect(asked.body).toMatchObject({ id, deleteRequestedAt: expect.any(String) as string, queue: [] });
    expect((await world.ask(`/v1/runs/${waiting.body.run.id}`, { key })).body).toMatchObject({ status: "cancelled" });
    expect((await world.ask(`/v1/runs/${active.body.run.id}`, { key })).body).toMatchObject({
      status: "running",
      cancelRequestedAt: expect.any(String) as string,
    });
    expectProblem(await send(id), "conversation_deleting");
    expectProblem(await change(id, { title: "x" }), "conversation_deleting");
    expectProblem(await world.refused(`/v1/conversations/${id}/fork`, { key, body: {} }), "conversation_deleting");
    expect((await remove(id)).status).toBe(202);
    await finish(ownership, null);
    expect((await show(id)).status).toBe(404);
    expect((await remove(id)).status).toBe(204);
  });

  it("waits for a call that is still outside, and what was said goes with the upkeep", async () => {
    const id = await converse({ title: "about herons" });
    const { body } = await send(id, "herons");
    const ownership = await world.claim(id);
    await finish(ownership, "herons again");
    // A call whose gate is still waiting for its outcome.
    await world.rows(
      `insert into signalbox.model_call (id, tenant_id, run_id, conversation_id, generation, process, state, wire,
         requested_model, rules, request_bytes, started_at)
       values ('mc_1', 'default', $1, $2, 1, 1, 'executing', 'anthropic', 'sim/quote', '{}', 1, now())`,
      [body.run.id, id],
    );
    expect((await remove(id)).status).toBe(202);
    await world.record.upkeep.eraseDeleted(1_000);
    expect((await show(id)).status).toBe(200);
    await world.rows("update signalbox.model_call set state = 'succeeded', finished_at = now() where id = 'mc_1'");
    await world.record.upkeep.eraseDeleted(2);
    expect((await show(id)).status).toBe(404);
    await world.record.upkeep.eraseDeleted(1_000);
    const left = await world.rows("select text from signalbox.message where conversation_id = $1", [id]);
    expect(left).toEqual([{ text: "" }, { text: "" }]);
    expect(await world.rows("select from signalbox.event where conversation_id = $1", [id])).toEqual([]);
    expect(await world.rows("select state from signalbox.run where conversation_id = $1", [id])).toEqual([
      { state: "completed" },
    ]);
    expect(await world.record.upkeep.eraseDeleted(1_000)).toBe(0);
  });

  it("raced by messages lets each in or refuses it, and ends with nothing left", async () => {
    const id = await converse();
    const told = await Promise.all([...Array.from({ length: 8 }, () => send(id)), remove(id), remove(id)]);
    const codes = told
      .slice(0, 8)
      .map(({ status, body }) => (status === 202 ? "in" : (body as { code?: string }).code));
    for (const code of codes) expect(["in", "conversation_deleting", "not_found"]).toContain(code);
    expect((await remove(id)).status).toBe(204);
    const states = await world.rows<{ state: string }>("select state from signalbox.run where conversation_id = $1", [
      id,
    ]);
    expect(states.every(({ state }) => state === "cancelled")).toBe(true);
  });

  it("is refused to whoever may not see it", async () => {
    const id = await converse({}, { user: "u_1" });
    expectProblem(await remove(id, { user: "u_2" }), "not_found");
    expectProblem(await remove(id, { key: await world.key({ tenantId: "other" }) }), "not_found");
    expect((await remove(id, { user: "u_1" })).status).toBe(204);
    expectProblem(await remove(id, { user: "u_2" }), "not_found");
  });
});

describe("a message whose sender prefers to wait", () => {
  const prefer = (wait: number) => ({ headers: { prefer: `wait=${wait}` } });

  it("is answered with the finished run and its answer", async () => {
    const id = await converse();
    const waiting = world.ask<AnsweredMessage>(`/v1/conversations/${id}/messages`, {
      key,
      body: { content: "hello" },
      ...prefer(30),
    });
    const ownership = await claimSoon(id);
    await finish(ownership, "the answer");
    const told = await waiting;
    expect(told.status).toBe(200);
    expect(told.headers.get("preference-applied")).toBe("wait=30");
    expect(told.headers.get("location")).toBe(`/v1/runs/${told.body.run.id}`);
    expect(told.body).toMatchObject({
      accepted: "started",
      message: { content: "hello" },
      run: { status: "completed", reason: "answered" },
      answer: { role: "assistant", content: "the answer" },
    });
  });

  it("is acknowledged when the time is over, and its run goes on", async () => {
    const id = await converse();
    const told = await send(id, "hello", prefer(0));
    expect(told.status).toBe(202);
    expect(told.headers.get("preference-applied")).toBe("wait=0");
    expect(told.body).toMatchObject({ accepted: "started", run: { status: "running" } });
    expect((await world.claim(id)).claim.runId).toBe(told.body.run.id);
  });

  it("repeated with its key is answered with the same run, finished or not", async () => {
    const id = await converse();
    const headers = { prefer: "wait=0", "idempotency-key": `wait-${id}` };
    const first = await send(id, "hello", { headers });
    await finish(await world.claim(id), "late answer");
    const again = await send(id, "hello", { headers });
    expect([first.status, again.status]).toEqual([202, 200]);
    expect(again.body).toMatchObject({ run: { id: first.body.run.id }, answer: { content: "late answer" } });
    expect(again.headers.get("idempotent-replayed")).toBe("true");
  });

  it("leaves no reader behind when the sender goes", async () => {
    const id = await converse();
    const leaving = new AbortController();
    const waiting = send(id, "hello", { ...prefer(60), signal: leaving.signal });
    await expect.poll(() => world.readers.size).toBe(1);
    leaving.abort();
    await expect(waiting).rejects.toThrow("aborted");
    await expect.poll(() => world.readers.size).toBe(0);
  });
});

/** The run as soon as it is admitted. */
async function claimSoon(id: string): Promise<Ownership> {
  await expect.poll(async () => (await show(id)).body.activeRun).not.toBeNull();
  return world.claim(id);
}
