import type { TranscriptRow } from "@signalbox/core";
import { afterAll, beforeAll, expect, it } from "vitest";
import { proves } from "../../setup/proves.ts";
import { codeOf, conclusionOf, finalizationOf, finishRun, startedRun, type ConversationPlace } from "./record-parts.ts";
import { RecordWorld, type Bound, type RecordProcess } from "./record-world.ts";

let world: RecordWorld;
let process: RecordProcess;

beforeAll(async () => {
  world = await RecordWorld.open();
  process = await world.process();
});
afterAll(async () => {
  await world[Symbol.asyncDispose]();
});

const item = (entryId: string, body = entryId, stream = ""): TranscriptRow => ({
  kind: "item",
  entryId,
  stream,
  body: Buffer.from(body),
});
const state = (entryId: string, stream = ""): TranscriptRow => ({ ...item(entryId, entryId, stream), kind: "state" });

const append = (bound: Bound, ...rows: TranscriptRow[]) => process.gates.appendTranscript(bound.tokenHash, rows);

async function load(bound: Bound, of: RecordProcess = process): Promise<readonly TranscriptRow[]> {
  const rows: TranscriptRow[] = [];
  for await (const page of of.gates.loadTranscript(bound.tokenHash)) {
    rows.push(...page);
  }
  return rows;
}

const idsOf = (rows: readonly TranscriptRow[]) => rows.map((row) => row.entryId);

async function turn(place: ConversationPlace): Promise<Bound> {
  return process.bind((await startedRun(process, place)).ownership);
}

it("keeps what a finished turn appended, byte for byte, and answers with the leaf", async () => {
  const place = await world.conversation();
  const first = await turn(place);
  const body = Buffer.from([0, 255, 128, 10, 0]);
  expect(await append(first, { ...item("a"), body }, item("b"))).toEqual({ leaf: "b" });
  expect(await append(first, item("side", "s", "sub/1"))).toEqual({ leaf: "b" });
  expect(await append(first, item("b", "not again"))).toEqual({ leaf: "b" });
  await finishRun(first.ownership);
  const second = await turn(place);
  expect(second.ownership.claim.leaf).toBe("b");
  const rows = await load(second);
  expect(idsOf(rows)).toEqual(["a", "b", "side"]);
  expect(Buffer.from(rows[0]!.body)).toEqual(body);
  expect(Buffer.from(rows[1]!.body).toString()).toBe("b");
  expect(await append(second, item("a", "changed"), item("c"))).toEqual({ leaf: "c" });
  expect(idsOf(await load(second))).toEqual(["a", "b", "side", "c"]);
});

it("a takeover sees what was finalized and not what the lost turn appended; the new turn replaces it", async () => {
  const place = await world.conversation();
  const first = await turn(place);
  await append(first, item("a"));
  await finishRun(first.ownership);
  const second = await turn(place);
  await append(second, item("lost-1"), item("same"), state("lost-state"));
  const again = await process.bind(await second.ownership.changeWorker({ attemptLimit: 5 }));
  expect(idsOf(await load(again))).toEqual(["a"]);
  await append(again, item("same", "said anew"), item("b"));
  expect(idsOf(await load(again))).toEqual(["a", "same", "b"]);
  await finishRun(again.ownership);
  const third = await turn(place);
  const rows = await load(third);
  expect(rows.map((row) => Buffer.from(row.body).toString())).toEqual(["a", "said anew", "b"]);
});

it("keeps only the newest state of each stream below the leaf", async () => {
  const place = await world.conversation();
  const first = await turn(place);
  await append(first, state("s1"), state("s2"), item("a"), state("side-1", "sub"), state("side-2", "sub"), state("s3"));
  await finishRun(first.ownership);
  const second = await turn(place);
  expect(idsOf(await load(second))).toEqual(["a", "side-2", "s3"]);
});

it("moves, keeps and breaks the continuity as the finalization says", async () => {
  const place = await world.conversation();
  const first = await turn(place);
  await append(first, item("a"));
  await finishRun(first.ownership);

  const failed = await turn(place);
  await append(failed, item("b"));
  await finishRun(failed.ownership, { outcome: "failed", reason: "internal", answer: null, continuity: "kept" });
  const third = await turn(place);
  expect(third.ownership.claim.leaf).toBe("a");
  expect(idsOf(await load(third))).toEqual(["a"]);

  await append(third, item("c"));
  await finishRun(third.ownership, { outcome: "cancelled", reason: "user_cancel", continuity: "broken" });
  const rebuilt = await turn(place);
  expect(rebuilt.ownership.claim).toMatchObject({ leaf: null, hasHistory: true });
  expect(await load(rebuilt)).toEqual([]);

  await append(rebuilt, item("d"), item("e"));
  await finishRun(rebuilt.ownership, { rung: "rebuilt" });
  const fifth = await turn(place);
  expect(fifth.ownership.claim.leaf).toBe("e");
  expect(idsOf(await load(fifth))).toEqual(["d", "e"]);
});

it("a turn rebuilt over an old transcript leaves only its own behind", async () => {
  const place = await world.conversation();
  const first = await turn(place);
  await append(first, item("old"));
  await finishRun(first.ownership);
  const rebuilt = await turn(place);
  await append(rebuilt, item("new-1"));
  await finishRun(rebuilt.ownership, { rung: "rebuilt" });
  const third = await turn(place);
  await append(third, item("new-2"));
  await finishRun(third.ownership, { rung: "native" });
  expect(idsOf(await load(await turn(place)))).toEqual(["new-1", "new-2"]);
});

it("does not move to another leaf than the sealed one", async () => {
  const place = await world.conversation();
  const bound = await turn(place);
  await append(bound, item("a"));
  const seal = await bound.ownership.seal(conclusionOf(bound.ownership));
  const move = (leaf: string | null, digest: string | null) =>
    codeOf(bound.ownership.finish(finalizationOf({ continuity: "moved", leaf, digest })));
  expect(await move("b", seal.digest)).toBe("transcript_not_durable");
  expect(await move("a", "00".repeat(32))).toBe("transcript_not_durable");
  expect(await move(seal.leaf, seal.digest)).toBe("accepted");
});

it("pages a large transcript", async () => {
  const place = await world.conversation();
  const bound = await turn(place);
  const large = "x".repeat(400_000);
  const ids = Array.from({ length: 7 }, (_, index) => `e${index}`);
  for (const id of ids) {
    await append(bound, item(id, large));
  }
  let pageCount = 0;
  const seen: string[] = [];
  for await (const page of process.gates.loadTranscript(bound.tokenHash)) {
    pageCount += 1;
    seen.push(...idsOf(page));
  }
  expect(seen).toEqual(ids);
  expect(pageCount).toBeGreaterThan(1);
});

it("stops reading when the owner changes between two pages", async () => {
  const place = await world.conversation();
  const bound = await turn(place);
  await append(bound, item("a", "x".repeat(1_100_000)), item("b", "x".repeat(1_100_000)));
  const pages = process.gates.loadTranscript(bound.tokenHash)[Symbol.asyncIterator]();
  await pages.next();
  await bound.ownership.release();
  expect(await codeOf(pages.next())).toBe("slot_unknown");
});

proves("INV-17", {
  title: "a transcript that does not agree with its digest is not handed out whole",
  sabotages: ["digests_follow_the_rows"],
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    if (sabotage === "digests_follow_the_rows") {
      await own.sabotage("transcript_head", "encode(c.leaf_digest, 'hex')", "null");
      await own.sabotage("load_transcript", "page.body, page.digest", "page.body, sha256(page.body)");
    }
    const reader = await own.process();
    const changes = {
      body: ["update signalbox.transcript_entry set body = 'x' where conversation_id = $1 and entry_id = 'b'"],
      "body and its own digest": [
        "update signalbox.transcript_entry set body = 'x', digest = sha256('x') where conversation_id = $1 and entry_id = 'b'",
      ],
      removal: ["delete from signalbox.transcript_entry where conversation_id = $1 and entry_id = 'a'"],
      order: [
        "update signalbox.transcript_entry set position = -position where conversation_id = $1",
        "update signalbox.transcript_entry set position = 3 + position where conversation_id = $1",
      ],
    };
    for (const [what, statements] of Object.entries(changes)) {
      const place = await own.conversation();
      const first = await reader.bind((await startedRun(reader, place)).ownership);
      await reader.gates.appendTranscript(first.tokenHash, [item("a"), item("b")]);
      await finishRun(first.ownership);
      const second = await reader.bind((await startedRun(reader, place)).ownership);
      expect(idsOf(await load(second, reader))).toEqual(["a", "b"]);
      for (const statement of statements) {
        await own.rows(statement, [place.conversationId]);
      }
      expect(await codeOf(load(second, reader)), `INV-17: ${what}`).toBe("transcript_corrupt");
    }
  },
});
