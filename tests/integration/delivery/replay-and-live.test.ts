/**
 * The gap between replay and live: whatever is committed between the steps of a reader that begins, it sees each
 * event once and in order, and so does every other reader from its own cursor.
 */
import type { LiveSubscription } from "@signalbox/core";
import { expect } from "vitest";
import type { ApiRecord } from "../../../packages/server/src/api/api-record.ts";
import { eventFeed } from "../../../packages/server/src/api/event-feed.ts";
import { ApiWorld } from "../../setup/api-world.ts";
import { proves } from "../../setup/proves.ts";
import { newPlace, owned, say, type Place } from "./conversation.ts";

const POINTS = ["before_subscribing", "before_reading", "after_reading", "never"] as const;
type Point = (typeof POINTS)[number];
const BOUND_MS = 1_500;

interface Beginning {
  readonly place: Place;
  readonly after: number;
  readonly at: Point;
  /** What is committed at the point. */
  readonly commit: () => Promise<void>;
  readonly replaysFirst: boolean;
}

/** A reader that begins at `after`, with something committed in the midst of it; resolves with its feed. */
async function begin(beginning: Beginning) {
  const { place, after, at, commit, replaysFirst } = beginning;
  const { record, subscribe } = place.world.services;
  let reads = 0;
  const gated: Pick<ApiRecord, "events"> = {
    async events(scope, id, range) {
      reads += 1;
      if (reads === 1 && at === "before_reading") await commit();
      const page = await record.events(scope, id, range);
      if (reads === 1 && at === "after_reading") await commit();
      return page;
    },
  };
  if (at === "before_subscribing") await commit();
  const subscription = replaysFirst ? lateSubscription(() => subscribe(place.id)) : subscribe(place.id);
  const feed = eventFeed({
    record: { ...record, ...gated },
    scope: { tenantId: "default", user: null },
    conversationId: place.id,
    after,
    known: null,
    follow: true,
    subscription,
    nowMs: () => 0,
  });
  return { feed, subscription };
}

/** The mistake: listening begins only when the replay is over, and what was rung before is not heard. */
function lateSubscription(subscribe: () => LiveSubscription): LiveSubscription {
  let real: LiveSubscription | null = null;
  let closed = false;
  const close = (): void => {
    closed = true;
    real?.close();
  };
  return {
    async *[Symbol.asyncIterator]() {
      real = subscribe();
      if (closed) real.close();
      yield* real;
    },
    close,
    [Symbol.dispose]: close,
  };
}

/** Ids of durable frames until there are `count`, or nothing comes any more. */
async function take(
  { feed, subscription }: Awaited<ReturnType<typeof begin>>,
  count: number,
): Promise<readonly number[]> {
  const ids: number[] = [];
  const giveUp = AbortSignal.timeout(BOUND_MS);
  giveUp.addEventListener("abort", () => subscription.close(), { once: true });
  for await (const { id } of feed) {
    if (id !== null) ids.push(id);
    if (ids.length === count) break;
  }
  subscription.close();
  return ids;
}

proves("INV-10", {
  title: "what is committed while a reader begins is seen once, in order, by every reader from its cursor",
  sabotages: ["replay_before_subscribing", "cursor_of_another_reader"],
  timeoutMs: 60_000,
  async holds(sabotage) {
    await using world = await ApiWorld.open();
    for (const at of POINTS) {
      const place = await newPlace(world);
      const ownership = await owned(place);
      await say(ownership, "three", "four");
      const commit = (): Promise<void> => say(ownership, "five: a person must approve");
      const replaysFirst = sabotage === "replay_before_subscribing";
      const early = await begin({ place, after: 2, at, commit, replaysFirst });
      const shared = sabotage === "cursor_of_another_reader" ? 2 : 4;
      const late = await begin({ place, after: shared, at: "never", commit, replaysFirst });
      const seen = take(early, 4);
      const seenLate = take(late, 2);
      if (at === "never") await commit();
      // The replay of the early reader is over when it waits; only then does the rest follow.
      await expect.poll(async () => (await world.services.record.conversation(SCOPE, place.id)).lastSequence).toBe(5);
      if (replaysFirst) expect(await seen, `INV-10: committed ${at}`).toContain(5);
      await say(ownership, "six");
      expect(await seen, `INV-10: committed ${at}`).toEqual([3, 4, 5, 6]);
      expect(await seenLate, `INV-10: the other reader, committed ${at}`).toEqual([5, 6]);
    }
  },
});

const SCOPE = { tenantId: "default", user: null };
