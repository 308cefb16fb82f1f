/** A fork and the deletion of what it repeats: whoever comes first is seen by the other. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { newId, startedRun, type ConversationPlace } from "./record-parts.ts";
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

async function fork({ tenantId, conversationId }: ConversationPlace) {
  const { rows } = await process.pools.app.query<{ answer: { code?: string } }>({
    name: "fork",
    text: "select signalbox.fork_conversation($1, null, $2, null, $3, '{}') as answer",
    values: [tenantId, conversationId, newId("conversation")],
  });
  return rows[0]!.answer;
}

const DELETES = "update signalbox.conversation set delete_requested_at = signalbox.clock() where id = $1";

it("a fork waits for a deletion that came first, and is refused by it", async () => {
  const place = await world.conversation();
  await startedRun(process, place);
  const deletion = await world.session();
  await deletion.query("begin");
  await deletion.query("select from signalbox.ownership where conversation_id = $1 for update", [place.conversationId]);
  await deletion.query(DELETES, [place.conversationId]);
  const forking = fork(place);
  await world.untilBlockedBy(deletion);
  await deletion.query("commit");
  expect(await forking).toEqual({ code: "conversation_deleting" });
  expect(await world.rows("select from signalbox.conversation where forked_from = $1", [place.conversationId])).toEqual(
    [],
  );
});

it("forks of one conversation do not wait for each other", async () => {
  const place = await world.conversation();
  const other = await world.session();
  await other.query("begin");
  await other.query("select from signalbox.ownership where conversation_id = $1 for share", [place.conversationId]);
  expect((await fork(place)).code).toBeUndefined();
  await other.query("commit");
});
