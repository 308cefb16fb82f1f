/** What an earlier release marked as cut is removed in time; what an open run has behind the leaf is its own. */
import { expect, it } from "vitest";
import { createUpkeepRecord } from "../../../packages/server/src/channels/truth/upkeep-record.ts";
import { finishRun, startedRun, type ConversationPlace } from "./record-parts.ts";
import { RecordWorld } from "./record-world.ts";

it("removes marked entries in batches, and none of a run that is not over", async () => {
  await using world = await RecordWorld.open();
  const process = await world.process();
  const place = await world.conversation();
  const mark = (...ids: string[]) =>
    world.rows("update signalbox.transcript_entry set cut = true where conversation_id = $1 and entry_id = any ($2)", [
      place.conversationId,
      ids,
    ]);
  const left = async (of: ConversationPlace) =>
    (
      await world.rows<{ entry_id: string }>(
        "select entry_id from signalbox.transcript_entry where conversation_id = $1 order by position",
        [of.conversationId],
      )
    ).map((row) => row.entry_id);
  const append = (tokenHash: string, ...ids: string[]) =>
    process.gates.appendTranscript(
      tokenHash,
      ids.map((entryId) => ({ kind: "item", entryId, stream: "", body: Buffer.from(entryId) })),
    );
  const first = await process.bind((await startedRun(process, place)).ownership);
  await append(first.tokenHash, "a", "b", "c", "d");
  await finishRun(first.ownership);
  const second = await process.bind((await startedRun(process, place)).ownership);
  await append(second.tokenHash, "e", "f");
  await mark("a", "b", "c", "e");
  const upkeep = createUpkeepRecord(process.pools.run);
  expect([await upkeep.pruneTranscripts(2), await upkeep.pruneTranscripts(2)]).toEqual([2, 1]);
  expect(await left(place)).toEqual(["d", "e", "f"]);
  expect(await upkeep.pruneTranscripts(2)).toBe(0);
  await finishRun(second.ownership);
  await mark("e");
  expect(await upkeep.pruneTranscripts(2)).toBe(1);
  expect(await left(place)).toEqual(["d", "f"]);
});
