/** What is left of deleted conversations goes in bounded batches, and none that cannot go yet keeps others waiting. */
import { afterAll, beforeAll, expect, it } from "vitest";
import {
  ACTOR,
  codeOf,
  finishRun,
  newId,
  proposalOf,
  startedRun,
  textEvent,
  TURN,
  type ConversationPlace,
} from "./record-parts.ts";
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

const remove = ({ conversationId }: ConversationPlace) =>
  world.rows("select signalbox.delete_conversation('default', null, $1, $2)", [conversationId, JSON.stringify(ACTOR)]);
const erase = async (limit: number) =>
  (await world.one<{ done: number }>("select signalbox.erase_deleted($1) as done", [limit])).done;
const erased = async ({ conversationId }: ConversationPlace) =>
  (
    await world.one<{ gone: boolean }>(
      "select erased_at is not null as gone from signalbox.conversation where id = $1",
      [conversationId],
    )
  ).gone;

it("takes no more rows at once than it may, whatever they are rows of", async () => {
  const place = await world.conversation();
  for (let count = 0; count < 3; count += 1) {
    const { ownership } = await startedRun(process, place, { metadata: { a: "b" }, requested: { model: "x" } });
    const { tokenHash } = await process.bind(ownership);
    const hold = {
      holdId: newId("hold"),
      kind: "input",
      subject: { q: "?" },
      digest: null,
      expiresInMs: null,
    } as const;
    await process.gates.openHold({ tokenHash, process: process.incarnation, ...hold });
    await ownership.append([textEvent("said")], TURN);
    await finishRun(ownership);
  }
  await remove(place);
  const said = async () =>
    (
      await world.one<{ n: number }>(
        `select (select count(*) from signalbox.event where conversation_id = $1)
              + (select count(*) from signalbox.message where conversation_id = $1 and (text <> '' or metadata <> '{}'))
              + (select count(*) from signalbox.run where conversation_id = $1 and (requested <> '{}' or granted <> '{}'))
              + (select count(*) from signalbox.hold where conversation_id = $1 and subject <> '{}') as n`,
        [place.conversationId],
      )
    ).n;
  let left = await said();
  expect(left).toBeGreaterThan(20);
  const limit = 4;
  for (let batch = 0; left > 0; batch += 1) {
    expect(batch, "it comes to an end").toBeLessThan(50);
    expect(await erased(place)).toBe(false);
    const done = await erase(limit);
    const now = await said();
    expect(left - now).toBeLessThanOrEqual(limit);
    expect(done).toBeGreaterThan(0);
    left = now;
  }
  while ((await erase(limit)) >= limit);
  expect(await erased(place)).toBe(true);
  expect(await erase(limit)).toBe(0);
});

it("goes past conversations whose calls are still outside, however many they are", async () => {
  const open = await world.conversation();
  const { ownership } = await startedRun(process, open);
  await process.openModel((await process.bind(ownership)).tokenHash);
  // As many as it looks at in one go, and all of them before the one that can go.
  await world.rows(
    `insert into signalbox.conversation (id, tenant_id, agent_id, created_by, metadata)
     select 'cnv_0' || lpad(n::text, 31, '0'), tenant_id, agent_id, created_by, '{}'
     from signalbox.conversation, generate_series(1, 150) as n where id = $1`,
    [open.conversationId],
  );
  await world.rows(
    `insert into signalbox.ownership (conversation_id, tenant_id)
     select id, tenant_id from signalbox.conversation where id like 'cnv_0000000000000000000%'`,
  );
  await world.rows(
    `insert into signalbox.run
     select (jsonb_populate_record(r, jsonb_build_object('id', 'run_' || c.id, 'conversation_id', c.id,
       'message_id', 'msg_' || c.id, 'state', 'queued', 'owner', null, 'generation', null))).*
     from signalbox.run r, signalbox.conversation c
     where r.conversation_id = $1 and c.id like 'cnv_0000000000000000000%'`,
    [open.conversationId],
  );
  await world.rows(
    "update signalbox.conversation set delete_requested_at = signalbox.clock() where id like 'cnv_0000000000000000000%'",
  );
  const last = await world.conversation();
  await finishRun((await startedRun(process, last)).ownership);
  await remove(last);
  while ((await erase(100)) >= 100);
  expect(await erased(last)).toBe(true);
});

it("leaves a conversation that somebody else tidies for the next time, with everything in it", async () => {
  const place = await world.conversation();
  await finishRun((await startedRun(process, place)).ownership);
  await remove(place);
  const tidying = await world.session();
  await tidying.query("begin");
  await tidying.query("select from signalbox.conversation where id = $1 for update", [place.conversationId]);
  await erase(100);
  // Whoever expires events has the conversation and takes its events next: that waits for nobody.
  await tidying.query("delete from signalbox.event where conversation_id = $1", [place.conversationId]);
  await tidying.query("commit");
  expect(await erased(place)).toBe(false);
  while ((await erase(100)) > 0);
  expect(await erased(place)).toBe(true);
});

it("a call whose conversation goes while somebody settles it is not found", async () => {
  const place = await world.conversation();
  const { ownership } = await startedRun(process, place);
  const bound = await process.bind(ownership);
  const call = proposalOf({ effect: "write" });
  await process.propose(bound, [call]);
  await process.openTool(bound, call);
  const lost = { state: "unknown", errorCode: null, resultJson: "{}", resultSummary: "" } as const;
  await process.gates.settleToolCall({ toolCallId: call.toolCallId, ...lost });
  await finishRun(ownership, { outcome: "failed", reason: "outcome_unknown", answer: null });
  const deleting = await world.session();
  await deleting.query("begin");
  await deleting.query("select signalbox.delete_conversation('default', null, $1, $2)", [
    place.conversationId,
    JSON.stringify(ACTOR),
  ]);
  const found = { toolCallId: call.toolCallId, outcome: "failed", resultJson: null, note: null } as const;
  const settling = codeOf(process.operators.reconcile({ tenantId: "default", actor: ACTOR, ...found }));
  await world.untilBlockedBy(deleting);
  await deleting.query("commit");
  expect(await settling).toBe("not_found");
});
