/** The feed over all conversations: nothing that commits late is skipped. */
import type { Client } from "pg";
import { afterAll, beforeAll, expect, it } from "vitest";
import { FeedQueries, type Feed } from "../../../packages/server/src/store/queries/feed-queries.ts";
import { proves } from "../../setup/proves.ts";
import { until } from "../../setup/until.ts";
import { codeOf, finishRun, startedRun, textEvent, TURN, type ConversationPlace } from "./record-parts.ts";
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

interface Seen {
  readonly conversationId: string;
  readonly sequence: number;
}

/** A consumer that keeps its cursor. */
class Follower {
  readonly seen: Seen[] = [];
  readonly #queries: FeedQueries;
  readonly #tenantId: string;
  readonly #limit: number;
  #cursor: string | null = null;

  constructor(by: RecordProcess, options: { readonly tenantId: string; readonly limit?: number }) {
    this.#queries = new FeedQueries(by.pools.app);
    this.#tenantId = options.tenantId;
    this.#limit = options.limit ?? 200;
  }

  async look(agentId: string | null = null): Promise<void> {
    for (let more = true; more;) {
      const viewer = { tenantId: this.#tenantId, user: null };
      const page: Feed = await this.#queries.read(viewer, { after: this.#cursor, agentId, limit: this.#limit });
      for (const { event } of page.events) {
        this.seen.push({ conversationId: event.conversationId, sequence: event.sequence ?? 0 });
      }
      this.#cursor = page.nextCursor;
      more = page.more;
    }
  }

  of(place: ConversationPlace): readonly number[] {
    return this.seen.filter((each) => each.conversationId === place.conversationId).map((each) => each.sequence);
  }
}

/** Appends one event in a transaction that stays open. */
async function stall(session: Client, place: ConversationPlace): Promise<void> {
  await session.query("begin");
  await session.query(
    `select signalbox.write_event(r, 0, 1, r.id, 'queue.moved', '{"messageId":"m","position":0}')
     from signalbox.run r where r.conversation_id = $1 limit 1`,
    [place.conversationId],
  );
}

proves("INV-09", {
  title: "a follower of the feed sees every event once, each conversation in its order, also what commits late",
  sabotages: ["the_horizon_is_ignored", "a_transaction_is_placed_by_its_own_number"],
  timeoutMs: 60_000,
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    const by = await own.process();
    if (sabotage === "the_horizon_is_ignored") {
      await own.sabotage("read_feed", "and e.position < pg_snapshot_xmin(pg_current_snapshot())", "");
    }
    if (sabotage === "a_transaction_is_placed_by_its_own_number") {
      await own.sabotage("write_event", "greatest(last_position, pg_current_xact_id())", "pg_current_xact_id()");
      await own.sabotage("append_events", "greatest(c.last_position, pg_current_xact_id())", "pg_current_xact_id()");
    }
    const [late, quick] = [await own.conversation({ tenantId: "t" }), await own.conversation({ tenantId: "t" })];
    const follower = new Follower(by, { tenantId: "t" });
    await startedRun(by, late);
    const { ownership } = await startedRun(by, quick);
    // Numbered first, committed last; and numbered before a conversation it then writes into behind a later one.
    const early = await own.session();
    await early.query("begin");
    await early.query("select pg_current_xact_id()");
    const stalled = await own.session();
    await stall(stalled, late);
    await ownership.append([textEvent("quick")], TURN);
    await follower.look();
    await stalled.query("commit");
    await early.query(
      `select signalbox.write_event(r, 0, 1, r.id, 'queue.moved', '{"messageId":"m","position":0}')
       from signalbox.run r where r.conversation_id = any ($1)`,
      [[late.conversationId, quick.conversationId]],
    );
    await ownership.append([], TURN);
    await follower.look();
    await early.query("commit");
    await until("everything is below the horizon", async () => {
      await follower.look();
      return follower.seen.length >= 8;
    }).catch(() => undefined);
    expect(follower.of(late), "INV-09: the conversation whose events came late").toEqual([1, 2, 3, 4]);
    expect(follower.of(quick), "INV-09: the other conversation").toEqual([1, 2, 3, 4]);
  },
});

it("is read by pages of any size, and narrowed to an agent without losing its place", async () => {
  const [one, two] = [await world.conversation({ tenantId: "p" }), await world.conversation({ tenantId: "p" })];
  for (const place of [one, two, one]) {
    const { ownership } = await startedRun(process, place);
    await ownership.append([textEvent("a"), textEvent("b")], TURN);
    await finishRun(ownership);
  }
  const whole = new Follower(process, { tenantId: "p" });
  await until("everything is seen", async () => {
    await whole.look();
    return whole.seen.length === 15;
  });
  for (const limit of [1, 2, 7]) {
    const paged = new Follower(process, { tenantId: "p", limit });
    await paged.look();
    expect(paged.seen).toEqual(whole.seen);
    const narrowed = new Follower(process, { tenantId: "p", limit });
    await narrowed.look(two.agentId);
    expect(narrowed.seen).toEqual(whole.seen.filter((each) => each.conversationId === two.conversationId));
  }
  const stranger = new Follower(process, { tenantId: "q" });
  await stranger.look();
  expect(stranger.seen).toEqual([]);
});

it.each(["", "x", "17", "ZjEuMS5jbnZfeC4x", `${Buffer.from("f1.1.cnv_';drop.1").toString("base64url")}`])(
  "has no place called %j",
  async (after) => {
    const read = new FeedQueries(process.pools.app).read(
      { tenantId: "p", user: null },
      { after, agentId: null, limit: 1 },
    );
    expect(await codeOf(read)).toBe("invalid_cursor");
  },
);
