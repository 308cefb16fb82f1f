/** What the record forgets, with an age of the test's own, and what readers see of it. */
import { revisionOf, type OwnerEvent, type PlatformEvent } from "@signalbox/contract";
import { createItemFold, type FoldedItem, type Ownership } from "@signalbox/core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { createUpkeepRecord } from "../../../packages/server/src/channels/truth/upkeep-record.ts";
import { EventQueries } from "../../../packages/server/src/store/queries/event-queries.ts";
import { proves } from "../../setup/proves.ts";
import { finishRun, newId, startedRun, TURN, type ConversationPlace } from "./record-parts.ts";
import { RecordWorld, type RecordProcess } from "./record-world.ts";

let world: RecordWorld;
let process: RecordProcess;

beforeAll(async () => {
  world = await RecordWorld.open();
  process = await world.process();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

const HOUR_MS = 3_600_000;
const ALL = { ageMs: HOUR_MS, limit: 10_000 };

interface Said {
  readonly place: ConversationPlace;
  readonly ownership: Ownership;
}

/** A run that says an item in parts, closes it, and leaves another one retracted. */
async function speak(by: RecordProcess, place: ConversationPlace, parts: readonly string[]): Promise<Said> {
  const { ownership } = await startedRun(by, place);
  const item = newId("item");
  const gone = newId("item");
  const { generation } = ownership.claim;
  let offset = 0;
  const rows: OwnerEvent[] = parts.map((text, index) => {
    const data = { offset, text };
    offset += text.length;
    return { type: "text.delta", itemId: item, revision: revisionOf(generation, index + 1), data };
  });
  rows.push(
    { type: "text.delta", itemId: gone, revision: revisionOf(generation, 1), data: { offset: 0, text: "no" } },
    { type: "text.retracted", itemId: gone, revision: revisionOf(generation, 2), data: { cause: "retried" } },
    {
      type: "text.completed",
      itemId: item,
      revision: revisionOf(generation, parts.length + 1),
      data: { text: parts.join("") },
    },
  );
  await ownership.append(rows, TURN);
  return { place, ownership };
}

async function age(own: RecordWorld, conversationId: string, ageMs: number): Promise<void> {
  await own.rows(
    `update signalbox.run set finished_at = finished_at - make_interval(secs => $2 / 1000.0)
     where conversation_id = $1 and finished_at is not null`,
    [conversationId, ageMs],
  );
}

async function logOf(by: RecordProcess, place: ConversationPlace, after = 0): Promise<readonly PlatformEvent[]> {
  const viewer = { tenantId: place.tenantId, user: null };
  return new EventQueries(by.pools.app).after(viewer, place.conversationId, { afterSequence: after, limit: 10_000 });
}

function sequencesOf(log: readonly PlatformEvent[]): readonly number[] {
  return log.map((event) => event.sequence ?? 0);
}

function itemsOf(events: readonly PlatformEvent[]): readonly FoldedItem[] {
  const fold = createItemFold();
  events.forEach((event) => fold.apply(event));
  return fold.items();
}

async function boundsOf(place: ConversationPlace): Promise<{ kept: number; last: number }> {
  return world.one<{ kept: number; last: number }>(
    "select kept_sequence as kept, last_sequence as last from signalbox.conversation where id = $1",
    [place.conversationId],
  );
}

it("forgets the events of what ended long ago, and keeps what is young, what is active, and the anchor before them", async () => {
  const upkeep = createUpkeepRecord(process.pools.run);
  const place = await world.conversation();
  await finishRun((await speak(process, place, ["old"])).ownership);
  const { last: anchor } = await boundsOf(place);
  await age(world, place.conversationId, 2 * HOUR_MS);
  await finishRun((await speak(process, place, ["young"])).ownership);
  const active = await speak(process, place, ["active"]);
  const before = await logOf(process, place);

  await upkeep.expireEvents(ALL);
  const { last } = await boundsOf(place);
  expect(await boundsOf(place)).toEqual({ kept: anchor, last });
  expect(await logOf(process, place)).toEqual(before.slice(anchor - 1));
  expect(await upkeep.expireEvents(ALL), "nothing is left to do").toBe(0);

  await finishRun(active.ownership);
  await age(world, place.conversationId, 2 * HOUR_MS);
  await upkeep.expireEvents(ALL);
  const end = await boundsOf(place);
  expect(end.kept, "what is left is the newest event").toBe(end.last);
  expect(sequencesOf(await logOf(process, place))).toEqual([end.last]);

  const { admission } = await startedRun(process, place);
  expect(admission.cursor, "the next run is told where it begins, and may be read from there").toBe(end.last);
});

it("forgets in bounded batches, and is never further than the cursor that it announces", async () => {
  const upkeep = createUpkeepRecord(process.pools.run);
  const place = await world.conversation();
  for (const text of ["a", "b", "c"]) await finishRun((await speak(process, place, [text, text])).ownership);
  await age(world, place.conversationId, 2 * HOUR_MS);
  const { last } = await boundsOf(place);
  let batches = 0;
  for (let done = 5; done >= 5; batches += 1) {
    done = await upkeep.expireEvents({ ageMs: HOUR_MS, limit: 5 });
    const { kept } = await boundsOf(place);
    const left = sequencesOf(await logOf(process, place));
    expect(left).toEqual(Array.from({ length: last - kept + 1 }, (_, index) => kept + index));
  }
  expect(batches).toBeGreaterThan(3);
  expect((await boundsOf(place)).kept).toBe(last);
});

it("does not wait for a conversation that somebody holds, and comes back to it", async () => {
  const upkeep = createUpkeepRecord(process.pools.run);
  const [held, free] = [await world.conversation(), await world.conversation()];
  for (const place of [held, free]) {
    await finishRun((await speak(process, place, ["x"])).ownership);
    await age(world, place.conversationId, 2 * HOUR_MS);
  }
  const holder = await world.session();
  await holder.query("begin");
  await holder.query("select from signalbox.conversation where id = $1 for update", [held.conversationId]);
  await upkeep.expireEvents(ALL);
  expect((await boundsOf(held)).kept).toBe(0);
  expect((await boundsOf(free)).kept).toBeGreaterThan(0);
  await holder.query("commit");
  await upkeep.expireEvents(ALL);
  expect((await boundsOf(held)).kept).toBeGreaterThan(0);
});

it("lets one of all processes do the upkeep of a period", async () => {
  const upkeep = createUpkeepRecord(process.pools.run);
  const answers = await Promise.all(Array.from({ length: 6 }, () => upkeep.begin(HOUR_MS)));
  expect(answers.filter(Boolean)).toHaveLength(1);
  expect(await upkeep.begin(HOUR_MS)).toBe(false);
  await world.rows("update signalbox.upkeep set next_at = next_at - interval '1 hour'");
  expect(await upkeep.begin(HOUR_MS)).toBe(true);
});

it("forgets keys and unbound slots that are old enough, and no others", async () => {
  const upkeep = createUpkeepRecord(process.pools.run);
  const place = await world.conversation();
  const keys = async (): Promise<readonly string[]> =>
    (await world.rows<{ key: string }>("select key from signalbox.idempotency order by 1")).map(({ key }) => key);
  for (const key of ["k-old-1", "k-old-2", "k-young"]) {
    const { ownership } = await startedRun(process, place, { idempotency: { key, bodyHash: "b" } });
    const bound = await process.bind(ownership);
    if (key === "k-young") await process.bind(ownership);
    else await finishRun(bound.ownership);
  }
  await world.rows(
    "update signalbox.idempotency set created_at = created_at - interval '2 hours' where key like 'k-old%'",
  );
  expect(await upkeep.pruneKeys({ ageMs: HOUR_MS, limit: 1 })).toBe(1);
  expect(await upkeep.pruneKeys({ ageMs: HOUR_MS, limit: 10 })).toBe(1);
  expect(await keys()).toEqual(["k-young"]);

  const slots = async (): Promise<{ bound: number; free: number }> =>
    world.one(
      "select count(run_id)::integer as bound, count(*)::integer - count(run_id)::integer as free from signalbox.slot",
    );
  const before = await slots();
  expect(before.bound, "a slot is bound").toBeGreaterThan(0);
  expect(await upkeep.pruneSlots({ ageMs: HOUR_MS, limit: 10 }), "none is old").toBe(0);
  await world.rows(
    "update signalbox.slot set created_at = created_at - interval '2 hours', bound_at = bound_at - interval '2 hours'",
  );
  expect(await upkeep.pruneSlots({ ageMs: HOUR_MS, limit: 10 })).toBe(before.free);
  expect(await slots()).toEqual({ bound: before.bound, free: 0 });
});

proves("INV-09", {
  title: "whatever the upkeep takes, sequences stay without gaps, and every reader ends with the same items",
  sabotages: ["parts_are_deleted", "closing_rows_are_emptied", "young_runs_are_forgotten"],
  timeoutMs: 60_000,
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    const by = await own.process();
    const upkeep = createUpkeepRecord(by.pools.run);
    const place = await own.conversation();
    await finishRun((await speak(by, place, ["long ", "ago"])).ownership);
    await age(own, place.conversationId, 2 * HOUR_MS);
    await finishRun((await speak(by, place, ["Once ", "upon ", "a time"])).ownership);
    await speak(by, place, ["and ", "now"]);
    const elsewhere = await openItem(by, own);
    const before = await logOf(by, place);
    const whole = itemsOf(before);
    switch (sabotage) {
      case "parts_are_deleted":
        await own.rows("delete from signalbox.event where type = 'text.delta' and sequence > 12");
        break;
      case "closing_rows_are_emptied":
        await own.sabotage("empty_parts", "closed.sequence > e.sequence", "closed.sequence >= e.sequence");
        await own.sabotage("empty_parts", "('text.delta', 'thinking.delta')", "('text.delta', 'text.completed')");
        break;
      case "young_runs_are_forgotten":
        await own.sabotage(
          "expire_events",
          "r.finished_at is null or r.finished_at >= v_cutoff",
          "r.finished_at is null",
        );
        break;
      case null:
        break;
    }
    await upkeep.expireEvents(ALL);
    await upkeep.emptyParts(10_000);

    const { kept, last } = await own.one<{ kept: number; last: number }>(
      "select kept_sequence as kept, last_sequence as last from signalbox.conversation where id = $1",
      [place.conversationId],
    );
    const after = await logOf(by, place);
    const every = Array.from({ length: last - kept + 1 }, (_, index) => kept + index);
    expect(sequencesOf(after), "INV-09: sequences have no gap").toEqual(every);
    const recent = before
      .filter((event) => event.sequence !== null && event.sequence > kept)
      .map((event) => event.runId);
    expect(new Set(recent).size, "INV-09: the young run and the active one are kept").toBe(2);
    const expected = whole.filter((item) => recent.includes(item.runId));
    for (const cursor of every) {
      // A reader had seen everything up to its cursor as it was, and reads on in what is kept.
      const seen = before.filter((event) => event.sequence !== null && event.sequence <= cursor);
      const items = itemsOf([...seen, ...(await logOf(by, place, cursor))]);
      expect(
        items.filter((item) => recent.includes(item.runId)),
        `INV-09: the reader from ${cursor} has every item`,
      ).toEqual(expected);
    }
    const texts = await own.rows<{ type: string; data: string }>(
      `select type, data from signalbox.event e join signalbox.run r on r.id = e.run_id
       where r.finished_at is not null and e.type = 'text.delta'`,
    );
    expect(
      texts.every(({ data }) => data === '{"offset":0,"text":""}'),
      "INV-09: no text is kept twice",
    ).toBe(true);
    expect(await logOf(by, elsewhere), "INV-09: a run that goes on is left alone").toHaveLength(3);
  },
});

/** A run elsewhere that is in the middle of an item. */
async function openItem(by: RecordProcess, own: RecordWorld): Promise<ConversationPlace> {
  const place = await own.conversation();
  const { ownership } = await startedRun(by, place);
  const revision = revisionOf(ownership.claim.generation, 1);
  await ownership.append(
    [{ type: "text.delta", itemId: newId("item"), revision, data: { offset: 0, text: "hm" } }],
    TURN,
  );
  return place;
}
