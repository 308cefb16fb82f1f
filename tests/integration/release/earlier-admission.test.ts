/** The admission of the previous release, as its statement asks for it, in a database of today. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { actorText } from "../../../packages/server/src/store/actor-text.ts";
import { unpackPreviousRelease, type PreviousRelease } from "../../setup/previous-release.ts";
import {
  ACTOR,
  commandFor,
  conclusionOf,
  finishRun,
  startedRun,
  type ConversationPlace,
} from "../store/record-parts.ts";
import { RecordWorld, type RecordProcess } from "../store/record-world.ts";

let release: PreviousRelease;
let world: RecordWorld;
let process: RecordProcess;
beforeAll(async () => {
  release = unpackPreviousRelease();
  world = await RecordWorld.open();
  process = await world.process();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
  release[Symbol.dispose]();
});

interface Answer {
  readonly code?: string;
  readonly accepted?: string;
  readonly position?: number;
  readonly claim?: object | null;
}

async function admits(place: ConversationPlace, queueLimit: number): Promise<Answer> {
  const statements = await release.module("store/statements/record-statements.js");
  const { text } = statements["ADMIT"] as { readonly text: string };
  const command = commandFor(place);
  const { snapshot, snapshotHash } = command;
  const said = [
    place.tenantId,
    place.conversationId,
    command.messageId,
    command.runId,
    actorText(ACTOR),
    null,
    "hello",
  ];
  const about = ["{}", "enqueue", place.agentId, 1, place.runtime, snapshotHash, JSON.stringify(snapshot), 100, 100];
  const limits = [3_600_000, "{}", "{}", command.traceId, null, null, queueLimit, process.incarnation, null, null];
  const { rows } = await process.pools.app.query<{ answer: Answer }>({
    name: "released_admit",
    text,
    values: [...said, ...about, ...limits],
  });
  return rows[0]!.answer;
}

test("a message that was taken in takes no place in line", async () => {
  const place = await world.conversation();
  const { ownership } = await startedRun(process, place);
  const merged = await process.admission.admit(commandFor(place, { whenBusy: "steer" }));
  await ownership.takeIn(merged.messageId);
  expect(await admits(place, 1)).toMatchObject({ accepted: "queued", position: 1 });
  expect((await admits(place, 1)).code).toBe("queue_full");
  await finishRun(ownership);
});

test("a process claims at once, and not when the store is another one than it was registered in", async () => {
  expect((await admits(await world.conversation(), 1)).claim).not.toBeNull();
  await world.superuser.query("update signalbox.store_identity set timeline = timeline + 1");
  expect(await admits(await world.conversation(), 1)).toMatchObject({ accepted: "started", claim: null });
});

test("a cancel that comes too late is not said to have been asked of the owner", async () => {
  const { ownership, admission } = await startedRun(await world.process(), await world.conversation());
  await ownership.seal(conclusionOf(ownership));
  const statements = await release.module("store/statements/record-statements.js");
  const { text } = statements["REQUEST_CANCEL"] as { readonly text: string };
  const values = ["default", null, admission.runId, actorText(ACTOR)];
  const { rows } = await process.pools.app.query<{ answer: { kind: string; state: string } }>(text, values);
  // It tells `requested` from everything else, and shows the run as it is; the word it does not know says no more to it.
  expect(rows[0]?.answer).toEqual({ kind: "ending", state: "finalizing" });
});
