import { expect } from "vitest";
import { proves } from "../../setup/proves.ts";
import { codeOf, finishRun, startedRun, type ConversationPlace } from "./record-parts.ts";
import { RecordWorld, type Bound, type RecordProcess } from "./record-world.ts";

const item = (entryId: string, body = entryId) =>
  ({ kind: "item", entryId, stream: "", body: Buffer.from(body) }) as const;

async function idsOf(process: RecordProcess, tokenHash: string): Promise<readonly string[]> {
  const ids: string[] = [];
  for await (const page of process.gates.loadTranscript(tokenHash)) ids.push(...page.map((row) => row.entryId));
  return ids;
}

/** A conversation that ended a turn with `a`; its next one was left behind `b` and `c` and is taken over. */
async function takenOver(process: RecordProcess, place: ConversationPlace): Promise<Bound> {
  const first = await process.bind((await startedRun(process, place)).ownership);
  await process.gates.appendTranscript(first.tokenHash, [item("a")]);
  await finishRun(first.ownership);
  const dead = await process.bind((await startedRun(process, place)).ownership);
  await process.gates.appendTranscript(dead.tokenHash, [item("b"), item("c")]);
  const next = await process.bind(await dead.ownership.changeWorker({ attemptLimit: 5 }));
  expect(await next.ownership.takeOver({ adopt: true })).toMatchObject({ leaf: "c" });
  return next;
}

proves("INV-17", {
  title: "a tail that was adopted is continued only as it was written, and is gone when it is not continued",
  sabotages: ["adopted_without_digest_check", "tail_not_dropped"],
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    if (sabotage === "adopted_without_digest_check") {
      await own.sabotage("load_transcript", "page.body, page.digest", "page.body, sha256(page.body)");
    } else if (sabotage === "tail_not_dropped") {
      await own.sabotage("drop_tail", "t.position > v_position and", "false and");
    }
    const process = await own.process();
    const changed = await takenOver(process, await own.conversation());
    expect(await idsOf(process, changed.tokenHash)).toEqual(["a", "b", "c"]);
    const statement = "update signalbox.transcript_entry set body = 'x' where conversation_id = $1 and entry_id = 'b'";
    await own.rows(statement, [changed.ownership.claim.conversationId]);
    expect(await codeOf(idsOf(process, changed.tokenHash)), "INV-17: an entry that was changed").toBe(
      "transcript_corrupt",
    );
    const place = await own.conversation();
    const dropped = await takenOver(process, place);
    await dropped.ownership.dropTail();
    await process.gates.appendTranscript(dropped.tokenHash, [item("anew")]);
    await finishRun(dropped.ownership, { rung: "native" });
    const after = await startedRun(process, place);
    const { tokenHash } = await process.bind(after.ownership);
    expect(await idsOf(process, tokenHash), "INV-17: what the next turn continues from").toEqual(["a", "anew"]);
  },
});
