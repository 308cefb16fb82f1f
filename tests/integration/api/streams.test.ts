import { revisionOf, type AcceptedMessage, type OwnerEvent, type PlatformEvent } from "@signalbox/contract";
import type { Ownership } from "@signalbox/core";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ApiWorld, newId, type Asked } from "../../setup/api-world.ts";
import { readFrames, type SseFrame } from "../../setup/read-frames.ts";
import { conclusionOf, finalizationOf } from "../store/record-parts.ts";
import { expectProblem } from "./problems.ts";

let world: ApiWorld;
let key: string;
let conversation: string;

beforeAll(async () => {
  world = await ApiWorld.open();
  key = await world.key();
  await world.ask("/v1/agents", { key, body: { name: "support", model: "sim/quote" } });
});

beforeEach(async () => {
  conversation = (await world.ask<{ id: string }>("/v1/conversations", { key, body: { agent: "support" } })).body.id;
});

afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

const STREAM = { accept: "text/event-stream" };
const ITEM = newId("item");
const TURN = newId("turn");

function say(ownership: Ownership, ...events: readonly OwnerEvent[]): Promise<void> {
  return ownership.append(events, TURN);
}

function part(ownership: Ownership, offset: number, text: string): OwnerEvent {
  const revision = revisionOf(ownership.claim.generation, offset + 1);
  return { type: "text.delta", itemId: ITEM, revision, data: { offset, text } };
}

function whole(ownership: Ownership, text: string): OwnerEvent {
  const revision = revisionOf(ownership.claim.generation, 1_000);
  return { type: "text.completed", itemId: ITEM, revision, data: { text } };
}

async function finish(ownership: Ownership): Promise<void> {
  const { leaf, digest } = await ownership.seal(conclusionOf(ownership));
  await ownership.finish(finalizationOf({ leaf, digest, answer: null, outcome: "completed" }));
}

function events(query = "", asked: Asked = {}): Promise<Response> {
  return world.fetch(`/v1/conversations/${conversation}/events${query}`, { key, ...asked });
}

async function send(content: string, asked: Asked = {}): Promise<AcceptedMessage> {
  const path = `/v1/conversations/${conversation}/messages`;
  return (await world.ask<AcceptedMessage>(path, { key, ...asked, body: { content } })).body;
}

async function take(frames: AsyncIterable<SseFrame>, count: number): Promise<readonly SseFrame[]> {
  const taken: SseFrame[] = [];
  for await (const frame of frames) {
    taken.push(frame);
    if (taken.length === count) break;
  }
  return taken;
}

async function all(response: Response): Promise<readonly SseFrame[]> {
  return take(readFrames(response), Number.POSITIVE_INFINITY);
}

/** A run from its claim to its end: two parts of a text, the text, the end. */
async function answer(): Promise<void> {
  const ownership = await world.claim(conversation);
  await say(ownership, part(ownership, 0, "Hel"), part(ownership, 3, "lo"), whole(ownership, "Hello"));
  await finish(ownership);
}

const TYPES = ["run.admitted", "run.started", "text.delta", "text.delta", "text.completed", "run.finished"];

describe("a message sent by a caller that accepts the stream", () => {
  it("is answered with the events of its run, live and durable, and ends with it", async () => {
    const path = `/v1/conversations/${conversation}/messages`;
    const response = await world.fetch(path, { key, headers: STREAM, body: { content: "hello" } });
    expect(response.status).toBe(200);
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    expect(response.headers.get("cache-control")).toBe("no-cache, no-transform");
    expect(response.headers.get("x-accel-buffering")).toBe("no");
    expect(response.headers.get("content-encoding")).toBeNull();
    expect(response.headers.get("signalbox-request-id")).toMatch(/^req_/);
    expect(response.headers.get("signalbox-version")).toBe("9.9.9");
    expect(response.headers.get("location")).toMatch(/^\/v1\/runs\/run_/);
    expect(response.headers.get("content-location")).toBe(`/v1/conversations/${conversation}/events?after=0`);

    const frames = readFrames(response);
    expect(await nextOf(frames)).toMatchObject({ id: "1", event: "run.admitted" });
    const ownership = await world.claim(conversation);
    expect(await nextOf(frames)).toMatchObject({ id: "2", event: "run.started" });
    const { conversationId, runId, generation } = ownership.claim;
    const delta = { itemId: ITEM, revision: revisionOf(generation, 1), offset: 0, text: "Hel" };
    world.record.live.publish({ type: "text.delta", conversationId, runId, turnId: TURN, generation, ...delta });
    const live = await nextOf(frames);
    expect([live.id, live.event]).toEqual([null, "text.delta"]);
    expect(JSON.parse(live.data)).toMatchObject({ sequence: null, runId, ...delta });
    await say(ownership, whole(ownership, "Hello"));
    expect(await nextOf(frames)).toMatchObject({ id: "3", event: "text.completed" });
    await finish(ownership);
    const rest = await take(frames, 99);
    expect(rest.map(({ id, event }) => [id, event])).toEqual([["4", "run.finished"]]);
  });

  it("is told of its own run alone", async () => {
    await send("first");
    const path = `/v1/conversations/${conversation}/messages`;
    const response = await world.fetch(path, { key, headers: STREAM, body: { content: "second" } });
    const reading = all(response);
    await answer();
    await answer();
    const frames = await reading;
    const runs = frames.map(({ data }) => (JSON.parse(data) as PlatformEvent).runId);
    expect(new Set(runs).size).toBe(1);
    expect(frames.map(({ event }) => event)).toEqual(["queue.moved", ...TYPES]);
  });

  it("is refused with a problem document all the same", async () => {
    const path = `/v1/conversations/${conversation}/messages`;
    await send("first");
    const told = await world.refused(path, { key, headers: STREAM, body: { content: "x", whenBusy: "reject" } });
    expectProblem(told, "conversation_busy");
    expect(told.headers.get("x-should-retry")).toBe("false");
    expect(told.body.activeRunId).toMatch(/^run_/);
    expectProblem(await world.refused(path, { key, headers: STREAM, body: { content: " " } }), "invalid_request");
  });

  it("twice with one key sees the same run, also when it has ended", async () => {
    const path = `/v1/conversations/${conversation}/messages`;
    const asked = { key, headers: { ...STREAM, "idempotency-key": "k1" }, body: { content: "hello" } };
    const first = world.fetch(path, asked).then(all);
    await until(() => world.ask<{ activeRun: unknown }>(`/v1/conversations/${conversation}`, { key }));
    await answer();
    const second = await world.fetch(path, asked);
    expect(second.headers.get("idempotent-replayed")).toBe("true");
    expect(await all(second)).toEqual((await first).filter(({ id }) => id !== null));
  });
});

describe("the events of a conversation", () => {
  it("are the same from every cursor, by header or by query", async () => {
    await send("hello");
    await answer();
    const every = await all(await events("?follow=false"));
    expect(every.map(({ event }) => event)).toEqual(TYPES);
    expect(every.map(({ id }) => id)).toEqual(["1", "2", "3", "4", "5", "6"]);
    for (const { id, event, data } of every) {
      expect(JSON.parse(data)).toMatchObject({ type: event, sequence: Number(id), conversationId: conversation });
    }
    for (let after = 0; after <= 6; after += 1) {
      expect(await all(await events(`?follow=false&after=${after}`))).toEqual(every.slice(after));
      const headers = { "last-event-id": String(after) };
      expect(await all(await events("?follow=false", { headers }))).toEqual(every.slice(after));
      expect(await all(await events("?follow=false&after=1", { headers })), "the header is newer").toEqual(
        every.slice(after),
      );
    }
  });

  it.each([
    ["?after=7", {}],
    ["?after=-1", {}],
    ["?after=x", {}],
    ["?after=%00", {}],
    ["?after=99999999999999999999", {}],
    ["", { "last-event-id": "7" }],
    ["", { "last-event-id": "e3-17" }],
    ["", { "last-event-id": "1, 2" }],
    ["?after=1", { "last-event-id": "nonsense" }],
  ])("from %j with %j are none", async (query, headers) => {
    await send("hello");
    const told = await world.refused(`/v1/conversations/${conversation}/events${query}`, { key, headers });
    expectProblem(told, "invalid_cursor");
  });

  it("follow what is being said, for any number of readers", async () => {
    const readers = await Promise.all([events(), events(), events("?after=0")]);
    const reading = readers.map((response) => take(readFrames(response), 6));
    await send("hello");
    await answer();
    const [first, ...others] = await Promise.all(reading);
    expect(first?.map(({ event }) => event)).toEqual(TYPES);
    for (const other of others) expect(other).toEqual(first);
  });

  it("of a reader that has gone are not kept for it", async () => {
    const gone = new AbortController();
    const response = await events("", { signal: gone.signal });
    await send("hello");
    expect(await nextOf(readFrames(response))).toMatchObject({ id: "1" });
    gone.abort();
    await expect.poll(() => world.readers.size).toBe(0);
  });

  it("of a stranger's conversation do not exist", async () => {
    const stranger = await world.key({ tenantId: "other" });
    const told = await world.refused(`/v1/conversations/${conversation}/events`, { key: stranger });
    expectProblem(told, "not_found");
  });
});

describe("a conversation that is deleted", () => {
  it("closes the streams that follow it, with a reason", async () => {
    const reading = all(await events());
    expect((await world.ask(`/v1/conversations/${conversation}`, { key, method: "DELETE" })).status).toBe(204);
    expect(await reading).toContainEqual({
      id: null,
      event: "stream.closing",
      data: expect.stringContaining('"reason":"conversation_deleted"'),
    });
    expect(world.readers.size).toBe(0);
    expectProblem(await world.refused(`/v1/conversations/${conversation}/events`, { key }), "not_found");
  });
});

describe("a platform that stops", () => {
  it("closes its streams with a reason, and begins nothing new", async () => {
    const response = await events();
    const reading = all(response);
    world.stopping.abort();
    expect(await reading).toEqual([
      { id: null, event: "stream.closing", data: '{"reason":"server_stopping","cursor":null}' },
    ]);
    const told = await world.refused("/v1/info", { key });
    expectProblem(told, "shutting_down");
    expect(told.headers.get("retry-after")).toBe("1");
  });
});

/** The next frame. */
async function nextOf(frames: AsyncGenerator<SseFrame>): Promise<SseFrame> {
  const next = await frames.next();
  return next.done === true ? expect.unreachable("the stream ended") : next.value;
}

/** Resolves once the conversation has an active run. */
async function until(look: () => Promise<{ readonly body: { readonly activeRun: unknown } }>): Promise<void> {
  await expect.poll(async () => (await look()).body.activeRun).not.toBeNull();
}
