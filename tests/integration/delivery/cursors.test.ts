/** Cursors that are lost, foreign, ahead or too old, as the API answers them. */
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Signalbox } from "@signalbox/client";
import { revisionOf } from "@signalbox/contract";
import { ApiWorld, newId } from "../../setup/api-world.ts";
import { until } from "../../setup/until.ts";
import { expectProblem } from "../api/problems.ts";
import { finish, framesUntilEnd, newPlace, open, owned, say, sequencesOf, type Place } from "./conversation.ts";
import { TURN } from "../store/record-parts.ts";

const FIRST_KEPT = 10;
const LAST = 18;

let world: ApiWorld;
let place: Place;

/** A log that is kept from 10 to 18: what was before ended and was forgotten. */
beforeAll(async () => {
  world = await ApiWorld.open();
  place = await newPlace(world);
  const old = await owned(place);
  await say(old, "a", "b", "c", "d", "e", "f", "g");
  await finish(old);
  const recent = await owned(place);
  await say(recent, "h", "i", "j", "k", "l", "m");
  await until("the old run is forgotten", async () => {
    await world.record.upkeep.expireEvents({ ageMs: 0, limit: 1_000 });
    return (await conversation()).keptSequence === FIRST_KEPT;
  });
  expect((await conversation()).lastSequence).toBe(LAST);
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

interface Shown {
  readonly keptSequence: number;
  readonly lastSequence: number;
  readonly eventsUrl: string;
}

async function conversation(): Promise<Shown> {
  return (await world.ask<Shown>(`/v1/conversations/${place.id}`, { key: place.key })).body;
}

function path(query = ""): string {
  return `/v1/conversations/${place.id}/events${query}`;
}

async function sequencesFrom(
  query: string,
  headers: Readonly<Record<string, string>> = {},
): Promise<readonly number[]> {
  const response = await world.fetch(path(query), { key: place.key, headers });
  expect(response.status).toBe(200);
  return sequencesOf(await framesUntilEnd(response, 99));
}

const KEPT = Array.from({ length: LAST - FIRST_KEPT + 1 }, (_, index) => FIRST_KEPT + index);

describe("a cursor", () => {
  it.each([
    ["17", [18]],
    ["18", []],
    ["10", KEPT.slice(1)],
    ["", KEPT],
  ])("%j is resumed from", async (cursor, sequences) => {
    const headers = { "last-event-id": cursor };
    expect(await sequencesFrom("?follow=false", headers)).toEqual(sequences);
  });

  it.each(["0", "1", "9"])("%j is too old: the reader is told where to begin again", async (cursor) => {
    for (const asked of [
      { query: "", headers: { "last-event-id": cursor } },
      { query: `?after=${cursor}`, headers: {} },
      { query: `?after=${cursor}&follow=false`, headers: {} },
    ]) {
      const told = await world.refused(path(asked.query), { key: place.key, headers: asked.headers });
      expectProblem(told, "cursor_expired");
      expect(told.status).toBe(410);
      expect(told.body).toMatchObject({ keptSequence: FIRST_KEPT, retryable: false, eventsUrl: path() });
    }
    expect(await sequencesFrom("?follow=false")).toEqual(KEPT);
  });

  it.each(["999", "e3-17", "e2-17", "17'; drop", "-1", "1e1", "17.0", "\u00e9", "9".repeat(400)])(
    "%j is none of this log's, and no accident",
    async (cursor) => {
      const headers = { "last-event-id": cursor };
      expectProblem(await world.refused(path(), { key: place.key, headers }), "invalid_cursor");
      const query = `?after=${encodeURIComponent(cursor.slice(0, 60))}`;
      expectProblem(await world.refused(path(query), { key: place.key }), "invalid_cursor");
    },
  );

  it("is shown by the conversation, whose address begins with what is kept", async () => {
    const { eventsUrl } = await conversation();
    expect(await sequencesFrom(`${eventsUrl.slice(path().length)}?follow=false`)).toEqual(KEPT);
  });
});

describe("a client", () => {
  it("hears of a cursor that is too old, or goes on with what is kept, as it was told to", async () => {
    const client = new Signalbox({ url: world.url, apiKey: place.key });
    const at = client.conversations.open(place.id);
    const read = async (options: Parameters<typeof at.events>[0]): Promise<readonly number[]> => {
      const seen: number[] = [];
      for await (const { sequence } of at.events({ ...options, follow: false })) {
        if (sequence !== null) seen.push(sequence);
      }
      return seen;
    };
    await expect(read({ after: 3 })).rejects.toMatchObject({
      code: "cursor_expired",
      problem: { keptSequence: FIRST_KEPT },
    });
    expect(await read({ after: 3, expired: "restart" })).toEqual(KEPT);
    expect(await read({})).toEqual(KEPT);
  });
});

it("a reader that is overtaken by what the record forgets is told so, and is never sent a gap", async () => {
  const other = await newPlace(world);
  await finish(await owned(other));
  const { events } = world.services.record;
  // The reader has asked; before the log answers, the record forgets what lies before the newest run.
  let forgotten = false;
  const services = world.services as { record: typeof world.services.record };
  services.record = {
    ...services.record,
    async events(scope, id, range) {
      if (id === other.id && !forgotten) {
        forgotten = true;
        await until("it is forgotten", async () => {
          await world.record.upkeep.expireEvents({ ageMs: 0, limit: 1_000 });
          const { body } = await world.ask<Shown>(`/v1/conversations/${other.id}`, { key: other.key });
          return body.keptSequence > 1;
        });
      }
      return events(scope, id, range);
    },
  };
  const frames = await framesUntilEnd(await open(other, "?after=0"), 99);
  expect(frames).toEqual([
    { id: null, event: "stream.closing", data: JSON.stringify({ reason: "cursor_expired", cursor: null }) },
  ]);
});

it("frames without a number do not move the cursor: a reader that only ever saw such ones begins where it did", async () => {
  const other = await newPlace(world);
  const ownership = await owned(other);
  const { conversationId, runId, generation } = ownership.claim;
  for (let drop = 0; drop < 2; drop += 1) {
    const gone = new AbortController();
    const response = await open(other, "?after=2", { signal: gone.signal });
    await until("it reads", () => world.readers.size === 1);
    const itemId = newId("item");
    const revision = revisionOf(generation, 1);
    const delta = { type: "text.delta", conversationId, runId, turnId: TURN, generation, itemId, revision } as const;
    world.record.live.publish({ ...delta, offset: 0, text: "live" });
    const reader = response.body!.getReader();
    let text = "";
    while (!text.includes("text.delta")) text += new TextDecoder().decode((await reader.read()).value);
    expect(text, "what is not durable has no id").not.toContain("id:");
    gone.abort();
    await until("it is gone", () => world.readers.size === 0);
  }
  await say(ownership, "three");
  expect(sequencesOf(await framesUntilEnd(await open(other, "?after=2&follow=false"), 99))).toEqual([3]);
});

describe("a cursor beyond the log of a store that was put back", () => {
  it("is lost: the reader is told where to begin again, and a client that may begins there", async () => {
    await using own = await ApiWorld.open();
    const other = await newPlace(own);
    const ownership = await owned(other);
    await say(ownership, "one", "two");
    const ask = (headers: Readonly<Record<string, string>>, query = "") =>
      own.refused(`/v1/conversations/${other.id}/events${query}`, { key: other.key, headers });
    expectProblem(await ask({ "last-event-id": "999" }), "invalid_cursor");
    await own.rows("select signalbox.open_era('operator', null)");
    for (const told of [await ask({ "last-event-id": "999" }), await ask({}, "?after=999")]) {
      expectProblem(told, "cursor_lost");
      expect(told.status).toBe(410);
      expect(told.body).toMatchObject({
        keptSequence: 0,
        retryable: false,
        eventsUrl: `/v1/conversations/${other.id}/events`,
      });
    }
    const at = new Signalbox({ url: own.url, apiKey: other.key }).conversations.open(other.id);
    const seen: number[] = [];
    for await (const { sequence } of at.events({ after: 999, expired: "restart", follow: false })) {
      if (sequence !== null) seen.push(sequence);
    }
    expect(seen).toEqual([1, 2, 3, 4]);
  });
});
