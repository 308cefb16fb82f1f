/** Two API processes on one database: the writer on one, readers on both, and doorbells that do not arrive. */
import { createItemFold, type FoldedItem } from "@signalbox/core";
import { revisionOf } from "@signalbox/contract";
import { expect } from "vitest";
import { ApiWorld, newId } from "../../setup/api-world.ts";
import { proves } from "../../setup/proves.ts";
import type { SseFrame } from "../../setup/read-frames.ts";
import { until } from "../../setup/until.ts";
import { eventsOf, finish, framesUntilEnd, newPlace, open, owned, say, sequencesOf } from "./conversation.ts";
import { openFaultyLive } from "./faulty-live.ts";
import { TURN } from "../store/record-parts.ts";

const POLL_MS = 100;
const NEVER_MS = 3_600_000;
const READ_MS = 20_000;
const SABOTAGED_READ_MS = 4_000;
const CURSORS = [0, 0, 3, 7];

function itemsOf(frames: readonly SseFrame[]): readonly FoldedItem[] {
  const fold = createItemFold();
  eventsOf(frames).forEach((event) => fold.apply(event));
  return fold.items();
}

/** A run of many small commits, with an item that grows in between. */
async function write(ownership: Awaited<ReturnType<typeof owned>>): Promise<void> {
  const itemId = newId("item");
  const { generation } = ownership.claim;
  for (let step = 1; step <= 12; step += 1) {
    const revision = revisionOf(generation, step);
    await ownership.append([{ type: "text.delta", itemId, revision, data: { offset: step - 1, text: "x" } }], TURN);
    await say(ownership, `part ${step}`);
  }
  const revision = revisionOf(generation, 13);
  await ownership.append([{ type: "text.completed", itemId, revision, data: { text: "x".repeat(12) } }], TURN);
  await finish(ownership);
}

for (const [share, loses] of [
  ["none", () => false],
  ["half", (ordinal: number) => ordinal % 2 === 0],
  ["all", () => true],
] as const) {
  proves("INV-10", {
    title: `with ${share} of the doorbells lost, readers on both processes get every event once and in order`,
    sabotages: ["nobody_looks_and_all_are_lost", "stream_begins_at_the_head"],
    timeoutMs: 60_000,
    async holds(sabotage) {
      const deaf = sabotage === "nobody_looks_and_all_are_lost";
      await using writer = await ApiWorld.open();
      await using live = await openFaultyLive(writer.database, {
        loses: deaf ? () => true : loses,
        pollMs: deaf ? NEVER_MS : POLL_MS,
      });
      await using reader = await ApiWorld.open({ database: writer.database, live: live.channel });
      const place = await newPlace(writer);
      const ownership = await owned(place);
      await say(ownership, "one", "two", "three", "four", "five");
      const signal = AbortSignal.timeout(sabotage === null ? READ_MS : SABOTAGED_READ_MS);
      const reading = [writer, reader].flatMap((world) =>
        CURSORS.map(async (cursor) => {
          const from = sabotage === "stream_begins_at_the_head" ? Math.max(cursor, 5) : cursor;
          const response = await open({ ...place, world }, `?after=${from}`, { signal });
          return { cursor, frames: await framesUntilEnd(response, 1) };
        }),
      );
      await until("everybody reads", () => writer.readers.size + reader.readers.size === 2 * CURSORS.length);
      await write(ownership);

      const whole = await framesUntilEnd(await open(place, "?follow=false"), 1);
      const count = whole.length;
      expect(sequencesOf(whole)).toEqual(Array.from({ length: count }, (_, index) => index + 1));
      for (const { cursor, frames } of await Promise.all(reading)) {
        const expected = Array.from({ length: count - cursor }, (_, index) => cursor + index + 1);
        expect(sequencesOf(frames), `INV-10: the reader from ${cursor}`).toEqual(expected);
        expect(itemsOf([...whole.slice(0, cursor), ...frames]), `INV-10: its items`).toEqual(itemsOf(whole));
      }
      if (share === "all") expect(live.heardCount()).toBe(0);
      if (share === "half") expect(Math.min(live.heardCount(), live.lostCount())).toBeGreaterThan(0);
    },
  });
}
