/** A sender that waits at one API process for an answer that another one records, with its doorbells or without any. */
import type { AnsweredMessage } from "@signalbox/contract";
import { describe, expect, it } from "vitest";
import { ApiWorld, newId } from "../../setup/api-world.ts";
import { conclusionOf, finalizationOf } from "../store/record-parts.ts";
import { newPlace, type Place } from "./conversation.ts";
import { openFaultyLive } from "./faulty-live.ts";

const POLL_MS = 100;
const NEVER_MS = 3_600_000;
/** Longer than these tests may take: what is answered in time was not answered because the time was over. */
const WAIT_SECONDS = 60;

function sendAndWait({ world, key, id }: Place, seconds: number) {
  return world.ask<AnsweredMessage>(`/v1/conversations/${id}/messages`, {
    key,
    headers: { prefer: `wait=${seconds}` },
    body: { content: "hello" },
  });
}

/** The process beside it claims the run as soon as somebody waits for it, and answers. */
async function answerFrom(writer: ApiWorld, reader: Place): Promise<void> {
  await expect.poll(() => reader.world.readers.size).toBe(1);
  await expect
    .poll(async () => (await writer.ask(`/v1/conversations/${reader.id}`, { key: reader.key })).body.activeRun)
    .not.toBeNull();
  const ownership = await writer.claim(reader.id);
  const { leaf, digest } = await ownership.seal(conclusionOf(ownership));
  const answer = { messageId: newId("message"), text: "the answer", partial: false };
  await ownership.finish(finalizationOf({ leaf, digest, answer, outcome: "completed" }));
}

describe("a sender that waits at a second process", () => {
  it.each([
    ["none", () => false, NEVER_MS],
    ["half", (ordinal: number) => ordinal % 2 === 0, POLL_MS],
    ["all", () => true, POLL_MS],
  ] as const)("is answered when the run has ended, with %s of the doorbells lost", async (_share, loses, pollMs) => {
    await using writer = await ApiWorld.open();
    await using live = await openFaultyLive(writer.database, { loses, pollMs });
    await using world = await ApiWorld.open({ database: writer.database, live: live.channel });
    const place = { ...(await newPlace(writer)), world };
    const [told] = await Promise.all([sendAndWait(place, WAIT_SECONDS), answerFrom(writer, place)]);
    expect([told.status, told.headers.get("preference-applied")]).toEqual([200, `wait=${WAIT_SECONDS}`]);
    expect(told.body).toMatchObject({ run: { status: "completed" }, answer: { content: "the answer" } });
    expect(world.readers.size).toBe(0);
    if (loses(0) && loses(1)) expect(live.heardCount()).toBe(0);
  });
});
