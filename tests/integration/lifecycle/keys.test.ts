/** One key, one run: through several API processes, over lost transactions, and after whatever became of the run. */
import type { AcceptedMessage } from "@signalbox/contract";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ApiWorld, type Told } from "../../setup/api-world.ts";
import { proves } from "../../setup/proves.ts";
import { HeldPoint } from "./fault-points.ts";
import { conclude, Talk } from "./talk.ts";
import { sabotaged } from "./sabotaged.ts";

let world: ApiWorld;
let beside: ApiWorld;
let talk: Talk;

beforeAll(async () => {
  world = await ApiWorld.open();
  beside = await ApiWorld.open({ database: world.database });
  talk = await Talk.open(world);
});
afterAll(async () => {
  await beside[Symbol.asyncDispose]();
  await world[Symbol.asyncDispose]();
});

const isReplay = ({ headers }: Told<unknown>): boolean => headers.get("idempotent-replayed") === "true";

proves("INV-03", {
  title: "ten sends with one key through two API processes make one run, and another body is refused",
  sabotages: ["key_not_looked_up", "body_not_compared"],
  async holds(sabotage) {
    await using own = await ApiWorld.open();
    await using second = await ApiWorld.open({ database: own.database });
    if (sabotage === "key_not_looked_up") {
      await sabotaged(own.database, "admit_message", { part: "if p_key is not null then", instead: "if false then" });
    } else if (sabotage === "body_not_compared") {
      await sabotaged(own.database, "admitted_before", {
        part: "((p_known).body_hash = p_body_hash)",
        instead: "true",
      });
    }
    const people = await Talk.open(own);
    const conversation = await people.converse();
    const tries = Array.from({ length: 10 }, (_, index) =>
      people.try(conversation, "pay invoice 7", { key: "k1", at: index % 2 === 0 ? own : second }),
    );
    const told = await Promise.all(tries);
    expect(told.map(({ status }) => status)).toEqual(told.map(() => 202));
    expect(new Set(told.map(({ body }) => body.run.id)).size, "INV-03: one key, one run").toBe(1);
    expect(told.filter(isReplay)).toHaveLength(9);
    expect(await people.runs(conversation)).toHaveLength(1);
    const other = await people.try(conversation, "pay invoice 8", { key: "k1", at: second });
    expect(other.status, "INV-03: the same key with another body").toBe(422);
    expect(other.body).toMatchObject({ code: "idempotency_key_reused" });
    expect(await people.runs(conversation)).toHaveLength(1);
  },
});

describe("a key", () => {
  it("answers with the same run, marked as a replay, whatever the order of the body's fields", async () => {
    const path = `/v1/conversations/${await talk.converse()}/messages`;
    const headers = { "idempotency-key": "permuted" };
    const ask = (body: string) => world.ask<AcceptedMessage>(path, { key: talk.key, body, headers });
    const first = await ask('{"content":"hello","metadata":{"a":"1","b":"2"}}');
    const second = await ask('{ "metadata": {"b":"2", "a":"1"}, "content": "hello" }');
    expect([first.status, second.status]).toEqual([202, 202]);
    expect(second.body).toEqual(first.body);
    expect([first, second].map(isReplay)).toEqual([false, true]);
  });

  it("means something else to another tenant", async () => {
    const conversation = await talk.converse();
    const stranger = new Talk(world, await world.key({ tenantId: "another" }));
    const theirs = await stranger.converse();
    const here = await talk.try(conversation, "hello", { key: "shared" });
    const there = await stranger.try(theirs, "something else", { key: "shared" });
    expect([here.status, there.status]).toEqual([202, 202]);
    expect([here, there].map(isReplay)).toEqual([false, false]);
    expect(there.body.run.id).not.toBe(here.body.run.id);
  });

  it("is forgotten with the transaction that died between the key and the run", async () => {
    const conversation = await talk.converse();
    const table = { table: "run", on: "insert", when: "before" } as const;
    await using point = await HeldPoint.hold(world.database, {
      ...table,
      where: `new.conversation_id = '${conversation}'`,
    });
    const dying = talk.try(conversation, "hello", { key: "died" });
    await point.reached();
    await point.kill();
    const told = await dying;
    expect(told.status).toBe(503);
    expect(told.body).toMatchObject({ code: "database_unavailable", retryable: true });
    await point.letGo();
    const again = await talk.try(conversation, "hello", { key: "died", at: beside });
    expect([again.status, isReplay(again)]).toEqual([202, false]);
    expect((await talk.runs(conversation)).map(({ id }) => id)).toEqual([again.body.run.id]);
  });

  it("gives the run that failed, and does not begin another one", async () => {
    const conversation = await talk.converse();
    const first = await talk.try(conversation, "hello", { key: "failed" });
    const error = { code: "engine_failed", detail: "it broke" } as const;
    await conclude(await world.claim(conversation), { ending: "failed", answer: "", error });
    expect(await talk.run(first.body.run.id)).toMatchObject({ status: "failed", reason: "internal" });
    const again = await talk.try(conversation, "hello", { key: "failed", at: beside });
    expect([again.status, again.body, isReplay(again)]).toEqual([202, first.body, true]);
    expect(await talk.runs(conversation)).toHaveLength(1);
  });
});
