/** A message that comes while a run is ending: the release and the look at the line are one transaction. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { ApiWorld } from "../../setup/api-world.ts";
import { HeldPoint } from "./fault-points.ts";
import { conclude, Talk } from "./talk.ts";

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

/** It has begun as far as the record is concerned: nothing but a place on a worker is missing. */
async function expectReady(conversation: string, run: string): Promise<void> {
  expect((await talk.conversation(conversation)).activeRun).toMatchObject({ id: run, status: "running" });
  expect((await world.claim(conversation)).claim.runId).toBe(run);
}

it("after the last look at the line and before the release it waits for the release, and begins with it", async () => {
  const conversation = await talk.converse();
  const first = await talk.send(conversation, "first");
  const ownership = await world.claim(conversation);
  const where = `new.conversation_id = '${conversation}' and new.owner is null and old.owner is not null`;
  await using point = await HeldPoint.hold(world.database, {
    table: "ownership",
    on: "update",
    when: "at_commit",
    where,
  });
  const ending = conclude(ownership);
  await point.reached();
  const sending = talk.send(conversation, "second", { at: beside });
  await point.blocksOthers();
  await point.letGo();
  expect(await ending).toBeNull();
  const second = await sending;
  expect(second).toMatchObject({ accepted: "started", run: { status: "running" } });
  expect(await talk.run(first.run.id)).toMatchObject({ status: "completed" });
  await expectReady(conversation, second.run.id);
});

it("queued during the very first run of a conversation, it begins with that run's end", async () => {
  const conversation = await talk.converse();
  await talk.send(conversation, "first");
  const ownership = await world.claim(conversation);
  const second = await talk.send(conversation, "second", { at: beside });
  expect(second.accepted).toBe("queued");
  expect(await conclude(ownership)).toBe(second.run.id);
  await expectReady(conversation, second.run.id);
});

it("queued while a run waits for a hold that is then cancelled, it begins with the cancel", async () => {
  const conversation = await talk.converse();
  const first = await talk.send(conversation, "first");
  await world.openHold(conversation);
  const second = await talk.send(conversation, "second", { at: beside });
  expect(second.accepted).toBe("queued");
  const cancelled = await talk.cancel(first.run.id, beside);
  expect([cancelled.status, cancelled.body.status]).toEqual([200, "cancelled"]);
  await expectReady(conversation, second.run.id);
});

it("queued before a run fails, it begins with the failure", async () => {
  const conversation = await talk.converse();
  const first = await talk.send(conversation, "first");
  const ownership = await world.claim(conversation);
  const second = await talk.send(conversation, "second", { at: beside });
  const error = { code: "provider_failed", detail: "it broke" } as const;
  expect(await conclude(ownership, { ending: "failed", answer: "", error })).toBe(second.run.id);
  expect(await talk.run(first.run.id)).toMatchObject({ status: "failed", reason: "provider_error" });
  await expectReady(conversation, second.run.id);
});

it.each(["interrupt", "rollback"] as const)("a run that waits for a hold is ended at once by %s", async (whenBusy) => {
  const conversation = await talk.converse();
  const first = await talk.send(conversation, "first");
  const holdId = await world.openHold(conversation);
  const second = await talk.send(conversation, "second", { whenBusy, at: beside });
  expect(second).toMatchObject({ accepted: "started", run: { status: "running" } });
  const status = whenBusy === "interrupt" ? "cancelled" : "rolled_back";
  expect(await talk.run(first.run.id)).toMatchObject({ status, reason: "superseded", waitingFor: [] });
  const late = await world.ask(`/v1/holds/${holdId}/decision`, {
    key: talk.key,
    body: { decision: "respond", response: 1 },
  });
  expect([late.status, late.body.code]).toEqual([409, "hold_closed"]);
  const history = await talk.history(conversation);
  expect(history.map(({ content, struck }) => [content, struck])).toEqual([
    ["first", whenBusy === "rollback"],
    ["second", false],
  ]);
  await expectReady(conversation, second.run.id);
});

it("steered at a run that waits for a hold, it is queued and answered as an ordinary message", async () => {
  world.runtimes.splice(0, 1, { ...world.runtimes[0]!, capabilities: ["steering"] });
  const conversation = await talk.converse();
  await talk.send(conversation, "first");
  const holdId = await world.openHold(conversation);
  const second = await talk.send(conversation, "second", { whenBusy: "steer" });
  expect(second.accepted).toBe("queued");
  await world.ask(`/v1/holds/${holdId}/decision`, { key: talk.key, body: { decision: "respond", response: 1 } });
  const resumed = await world.claim(conversation);
  const { owner } = await talk.run(resumed.claim.runId);
  const offers = await world.record.ownership.steered(owner ?? 0);
  expect(offers.filter((offer) => offer.conversationId === conversation)).toEqual([]);
  expect(await conclude(resumed)).toBe(second.run.id);
  await expectReady(conversation, second.run.id);
});
