/** Places that are gone: what the feed and a conversation's log say to a reader who stands where nothing is any more. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { createUpkeepRecord } from "../../../packages/server/src/channels/truth/upkeep-record.ts";
import { EventQueries } from "../../../packages/server/src/store/queries/event-queries.ts";
import { FeedQueries } from "../../../packages/server/src/store/queries/feed-queries.ts";
import { proves } from "../../setup/proves.ts";
import { until } from "../../setup/until.ts";
import { codeOf, finishRun, startedRun, type ConversationPlace } from "./record-parts.ts";
import { RecordWorld, type RecordProcess } from "./record-world.ts";

const VIEWER = { tenantId: "default", user: null };
const WHOLE = { agentId: null, limit: 200 };
const HOUR_MS = 3_600_000;

let world: RecordWorld;
let process: RecordProcess;
beforeAll(async () => {
  world = await RecordWorld.open();
  process = await world.process();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

async function answered(own: RecordWorld, by: RecordProcess): Promise<ConversationPlace> {
  const place = await own.conversation();
  await finishRun((await startedRun(by, place)).ownership);
  return place;
}

/** As if everything that has ended had ended long ago. */
async function forget(own: RecordWorld, by: RecordProcess): Promise<void> {
  await own.rows(
    "update signalbox.run set finished_at = finished_at - interval '2 hours' where finished_at is not null",
  );
  await createUpkeepRecord(by.pools.run).expireEvents({ ageMs: HOUR_MS, limit: 10_000 });
}

proves("INV-09", {
  title: "a reader of the feed who stands where events have been forgotten is told so, and one who missed none is not",
  sabotages: ["the_horizon_stays"],
  timeoutMs: 60_000,
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    if (sabotage === "the_horizon_stays") {
      await own.sabotage("expire_events", "order by e.sequence desc limit 1", "order by e.sequence desc limit 0");
    }
    const by = await own.process();
    const feed = new FeedQueries(by.pools.app);
    await answered(own, by);
    const all = await until("the feed has the whole answer", async () => {
      const page = await feed.read(VIEWER, { ...WHOLE, after: null });
      return page.events.at(-1)?.event.type === "run.finished" ? page : null;
    });
    const early = (await feed.read(VIEWER, { ...WHOLE, limit: 1, after: null })).nextCursor;
    await forget(own, by);
    const later = await answered(own, by);
    const told = feed.read(VIEWER, { ...WHOLE, after: early });
    await expect(told, "INV-09: what is gone was skipped").rejects.toMatchObject({
      code: "cursor_expired",
      extra: { eventsUrl: "/v1/events" },
    });
    const next = await until("the feed has the next answer", async () => {
      const page = await feed.read(VIEWER, { ...WHOLE, after: all.nextCursor });
      return page.events.length > 0 ? page : null;
    });
    expect(next.events.map(({ event }) => event.conversationId)).toEqual(next.events.map(() => later.conversationId));
    const anew = await feed.read(VIEWER, { ...WHOLE, after: null });
    expect(anew.events.length).toBeGreaterThanOrEqual(next.events.length);
    await feed.read(VIEWER, { ...WHOLE, after: anew.nextCursor });
  },
});

it("a place of the feed that the store was put back to before is lost; one from before that is not", async () => {
  const feed = new FeedQueries(process.pools.app);
  const behind = async () => {
    const { conversationId } = await answered(world, process);
    return until("the feed has it", async () => {
      const { events, nextCursor } = await feed.read(VIEWER, { ...WHOLE, after: null });
      const last = events.at(-1)?.event;
      return last?.conversationId === conversationId && last.type === "run.finished" ? nextCursor : null;
    });
  };
  const kept = await behind();
  const lost = await behind();
  await world.rows("select signalbox.open_era('operator', null)");
  // As a store that was put back: the transactions after the first answer did not happen in it.
  const place = Buffer.from(kept, "base64url").toString("utf8").split(".")[2];
  await world.rows("update signalbox.era set position = ($1::bigint + 1)::text::xid8", [place]);
  expect(await codeOf(feed.read(VIEWER, { ...WHOLE, after: lost }))).toBe("cursor_lost");
  expect((await feed.read(VIEWER, { ...WHOLE, after: kept })).events.length).toBeGreaterThan(0);
  const now = (await feed.read(VIEWER, { ...WHOLE, after: null })).nextCursor;
  expect(await codeOf(feed.read(VIEWER, { ...WHOLE, after: now }))).toBe("accepted");
});

it("the log of a conversation says whether an era was opened since it began", async () => {
  await using own = await RecordWorld.open();
  const by = await own.process();
  const events = new EventQueries(by.pools.app);
  const before = await answered(own, by);
  expect(await events.place(VIEWER, before.conversationId)).toMatchObject({ replaced: false });
  await own.rows("select signalbox.open_era('operator', null)");
  const after = await own.conversation();
  expect(await events.place(VIEWER, before.conversationId)).toMatchObject({ replaced: true });
  expect(await events.place(VIEWER, after.conversationId)).toMatchObject({ replaced: false });
});
