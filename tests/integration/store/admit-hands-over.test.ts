/** What admission hands over besides the run: the slot bound to it, and what it wrote to the log. */
import { afterAll, afterEach, beforeAll, expect, it } from "vitest";
import { EventQueries } from "../../../packages/server/src/store/queries/event-queries.ts";
import { codeOf, commandFor, finishRun, sha256 } from "./record-parts.ts";
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
afterEach(() => {
  process.nextSeat = null;
});

const slotOf = async (tokenHash: string) =>
  (
    await world.rows(
      "select conversation_id, run_id, generation, worker_id from signalbox.slot where token_hash = $1",
      [tokenHash],
    )
  )[0];

it("binds the slot of the seat the run will have, so that its owner need not", async () => {
  const place = await world.conversation();
  process.nextSeat = { tokenHash: sha256("one"), workerId: "w1" };
  const { claim, runId } = await process.admission.admit(commandFor(place, { claimFor: process.incarnation }));
  const row = { conversation_id: place.conversationId, run_id: runId, generation: 1, worker_id: "w1" };
  expect(await slotOf(sha256("one"))).toEqual(row);
  expect(await process.gates.slot(sha256("one"))).toMatchObject({ run: { runId, generation: 1 } });
  if (claim === null) throw new Error("the run was not claimed");
  const ownership = process.owners.adopt(claim);
  await world.rows("update signalbox.slot set worker_id = 'as it was' where token_hash = $1", [sha256("one")]);
  await ownership.bindSlot(process.nextSeat);
  expect((await slotOf(sha256("one")))?.["worker_id"]).toBe("as it was");
  await ownership.bindSlot({ tokenHash: sha256("another"), workerId: "w2" });
  expect((await slotOf(sha256("another")))?.["run_id"]).toBe(runId);
  expect(await codeOf(process.gates.slot(sha256("one")))).toBe("slot_unknown");
});

it("binds the slot of a warm session to the next run, under its generation", async () => {
  const place = await world.conversation();
  process.nextSeat = { tokenHash: sha256("warm"), workerId: "w1" };
  const first = await process.admission.admit(commandFor(place, { claimFor: process.incarnation }));
  if (first.claim === null) throw new Error("the run was not claimed");
  await finishRun(process.owners.adopt(first.claim));
  const second = await process.admission.admit(commandFor(place, { claimFor: process.incarnation }));
  expect(second.claim?.generation).toBe(3);
  expect(await slotOf(sha256("warm"))).toMatchObject({ run_id: second.runId, generation: 3 });
});

it("binds nothing for a run that waits, or that nobody claims with it", async () => {
  const place = await world.conversation();
  const active = commandFor(place, { claimFor: process.incarnation });
  await process.admission.admit(active);
  process.nextSeat = { tokenHash: sha256("waits"), workerId: "w1" };
  const queued = await process.admission.admit(commandFor(place, { claimFor: process.incarnation }));
  expect([queued.accepted, queued.claim]).toEqual(["queued", null]);
  const elsewhere = await world.conversation();
  await process.admission.admit(commandFor(elsewhere, { claimFor: null }));
  expect(await slotOf(sha256("waits"))).toBeUndefined();
});

it("tells what it wrote as every reader will read it, and nothing on a replay", async () => {
  const place = await world.conversation();
  const idempotency = { key: "told once", bodyHash: "b" };
  const command = commandFor(place, { claimFor: process.incarnation, idempotency });
  const { events, cursor } = await process.admission.admit(command);
  const queries = new EventQueries(process.pools.app);
  const viewer = { tenantId: place.tenantId, user: null };
  const read = await queries.after(viewer, place.conversationId, { afterSequence: cursor, limit: 10 });
  expect(events.map(({ type }) => type)).toEqual(["run.admitted", "run.started"]);
  expect(JSON.stringify(events)).toBe(JSON.stringify(read));
  expect((await process.admission.admit(command)).events).toEqual([]);
  const queued = await process.admission.admit(commandFor(place));
  expect(queued.events.map(({ type, sequence }) => [type, sequence])).toEqual([["queue.moved", 3]]);
});
