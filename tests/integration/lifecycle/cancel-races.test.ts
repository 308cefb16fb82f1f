/** Cancel and completion at once, through the public API: the first ending stays, and nothing is paid for after a cancel. */
import { afterAll, beforeAll, expect, it } from "vitest";
import type { Ownership } from "@signalbox/core";
import { ApiWorld, newId } from "../../setup/api-world.ts";
import { codeOf, conclusionOf, modelSettlement } from "../store/record-parts.ts";
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

interface Started {
  readonly conversation: string;
  readonly run: string;
  readonly ownership: Ownership;
  /** Asks the model gate's record for one more call. */
  readonly openCall: () => Promise<ReturnType<typeof modelSettlement>["modelCallId"]>;
}

async function started(): Promise<Started> {
  const conversation = await talk.converse();
  const { run } = await talk.send(conversation, "count to five");
  const ownership = await world.claim(conversation);
  const tokenHash = newId("turn").padEnd(64, "0").slice(-64);
  await ownership.bindSlot({ tokenHash, workerId: "worker" });
  const { owner } = await talk.run(run.id);
  return {
    conversation,
    run: run.id,
    ownership,
    async openCall() {
      const modelCallId = newId("modelCall");
      const call = {
        tokenHash,
        modelCallId,
        process: owner ?? 0,
        wire: "anthropic",
        requestedModel: "sim/quote",
      } as const;
      await world.record.gates.openModelCall({ ...call, requestBytes: 1, rules: [] });
      return modelCallId;
    },
  };
}

async function endings(conversation: string): Promise<readonly unknown[]> {
  const events = await talk.events(conversation);
  return events.flatMap((event) => (event.type === "run.finished" ? [[event.outcome, event.reason]] : []));
}

it("a success that is reported after a cancel stays cancelled: what it cost is booked, and its text is partial", async () => {
  const { conversation, run, ownership, openCall } = await started();
  const call = await openCall();
  expect((await talk.cancel(run, beside)).status).toBe(202);
  await world.record.gates.settleModelCall({ ...modelSettlement(call), costMicros: 20_000 });
  await conclude(ownership, { answer: "1 2 3 4 5" });
  const ended = await talk.run(run);
  expect(ended).toMatchObject({ status: "cancelled", reason: "user_cancel", costMicros: 20_000 });
  const history = await talk.history(conversation);
  expect(history.map(({ content, partial }) => [content, partial])).toEqual([
    ["count to five", false],
    ["1 2 3 4 5", true],
  ]);
  expect(await endings(conversation)).toEqual([["cancelled", "user_cancel"]]);
});

it("a cancel after the success changes nothing, twice", async () => {
  const { conversation, run, ownership } = await started();
  await conclude(ownership);
  const before = await talk.run(run);
  for (const at of [world, beside]) {
    const told = await talk.cancel(run, at);
    expect([told.status, told.body.status]).toEqual([200, "completed"]);
  }
  expect(await talk.run(run)).toEqual(before);
  expect(await endings(conversation)).toEqual([["completed", "answered"]]);
});

it("a cancel of a run that was claimed and has not begun keeps it from every paid call", async () => {
  const { conversation, run, ownership, openCall } = await started();
  expect((await talk.cancel(run)).status).toBe(202);
  expect(await codeOf(openCall())).toBe("run_cancelled");
  const { owner } = await talk.run(run);
  const { generation } = ownership.claim;
  expect(await world.record.ownership.cancelled(owner ?? 0)).toContainEqual({
    conversationId: conversation,
    generation,
  });
  await conclude(ownership, { ending: "interrupted", answer: "" });
  expect(await talk.run(run)).toMatchObject({ status: "cancelled", usage: { modelCalls: 0 } });
  expect(await codeOf(openCall())).not.toBe("accepted");
});

it("a second cancel gets the answer of the first, before and after the end", async () => {
  const { conversation, run, ownership } = await started();
  const [first, second] = await Promise.all([talk.cancel(run), talk.cancel(run, beside)]);
  expect([first.status, second.status]).toEqual([202, 202]);
  expect(first.body.cancelRequestedAt).toBe(second.body.cancelRequestedAt);
  await conclude(ownership, { ending: "interrupted", answer: "" });
  const third = await talk.cancel(run, beside);
  expect([third.status, third.body.status, third.body.reason]).toEqual([200, "cancelled", "user_cancel"]);
  expect(await endings(conversation)).toEqual([["cancelled", "user_cancel"]]);
});

it("a run that nobody knows, or that is somebody else's, cannot be cancelled", async () => {
  const { run } = await started();
  expect((await talk.cancel(newId("run"))).body).toMatchObject({ code: "not_found", status: 404 });
  const stranger = new Talk(world, await world.key({ tenantId: "another" }));
  expect((await stranger.cancel(run)).body).toMatchObject({ code: "not_found", status: 404 });
  expect((await talk.run(run)).cancelRequestedAt).toBeNull();
});

/** How far the owner's ending has come when the cancel is sent. */
const MEETINGS = ["before the ending begins", "while it begins", "between the two", "after it"] as const;

it.each(MEETINGS)("a cancel %s: one ending, and both sides are told the same", async (meeting) => {
  for (let time = 0; time < 4; time += 1) {
    const { conversation, run, ownership } = await started();
    const told = await meet(meeting, () => talk.cancel(run, beside), ownership);
    const { status } = await talk.run(run);
    if (meeting === "before the ending begins") expect(status).toBe("cancelled");
    if (meeting === "after it") expect(status).toBe("completed");
    const outcome = status === "completed" ? ["completed", "answered"] : ["cancelled", "user_cancel"];
    expect(await endings(conversation)).toEqual([outcome]);
    expect(told.status).toBe(told.body.finishedAt === null ? 202 : 200);
    // Who was told that the cancel is marked may count on it, and nobody else's run is marked.
    expect(told.body.cancelRequestedAt !== null).toBe(status === "cancelled");
    if (told.status === 200) expect(told.body.status).toBe(status);
  }
});

async function meet<Told>(
  meeting: (typeof MEETINGS)[number],
  cancel: () => Promise<Told>,
  ownership: Ownership,
): Promise<Told> {
  if (meeting === "before the ending begins") {
    const told = await cancel();
    await conclude(ownership);
    return told;
  }
  if (meeting === "between the two") await ownership.seal(conclusionOf(ownership));
  if (meeting === "after it") await conclude(ownership);
  const rest = meeting === "after it" ? null : conclude(ownership);
  const [told] = await Promise.all([cancel(), rest]);
  return told;
}
