import { expect } from "vitest";
import { proves } from "../../setup/proves.ts";
import { finishRun, newId, proposalOf, startedRun, textEvent, TURN, type ConversationPlace } from "./record-parts.ts";
import { openQuietServer } from "./quiet-server.ts";
import type { RecordProcess, RecordWorld } from "./record-world.ts";
import { settledReads } from "./rows-read.ts";

const EARLY = 5;
const LATE = 100;
const NEIGHBOURS = 10;
const NEIGHBOUR_ENTRIES = 400;

async function turn(process: RecordProcess, place: ConversationPlace): Promise<void> {
  const { ownership } = await startedRun(process, place);
  const bound = await process.bind(ownership);
  const proposal = proposalOf();
  await process.propose(bound, [proposal]);
  const { toolCallId } = await process.openTool(bound, proposal);
  const outcome = { state: "succeeded", resultJson: "{}", resultSummary: "", errorCode: null } as const;
  await process.gates.settleToolCall({ toolCallId, ...outcome });
  await process.gates.appendTranscript(bound.tokenHash, [
    { kind: "item", entryId: newId("item"), stream: "", body: Buffer.from("item") },
    { kind: "state", entryId: newId("item"), stream: "", body: Buffer.from("state") },
  ]);
  await ownership.append([textEvent("said")], TURN);
  await finishRun(ownership, { rung: "native" });
}

/** Conversations that have gone on for a while, and were counted: in an almost empty table any index is as good as another. */
async function crowd(own: RecordWorld, process: RecordProcess): Promise<void> {
  for (let count = 0; count < NEIGHBOURS; count += 1) await turn(process, await own.conversation());
  await own.superuser.query(
    `insert into signalbox.transcript_entry
       (tenant_id, conversation_id, position, generation, stream, entry_id, kind, body, digest)
     select c.tenant_id, c.id, c.leaf_position + n, 1, '', 'old-' || n, 'item', '', sha256('')
     from signalbox.conversation c, generate_series(1, $1) n`,
    [NEIGHBOUR_ENTRIES],
  );
  await own.superuser.query("analyze");
}

proves("INV-24", {
  title: "the record reads as many rows in a late turn of a conversation as in an early one",
  sabotages: ["looks_at_the_whole_transcript", "counts_every_run"],
  timeoutMs: 120_000,
  async holds(sabotage) {
    await using server = await openQuietServer();
    const { own } = server;
    if (sabotage === "looks_at_the_whole_transcript") {
      await own.sabotage(
        "settle_transcript",
        "t.position > v_leaf_position and",
        "t.position + 0 > v_leaf_position and",
      );
    } else if (sabotage === "counts_every_run") {
      await own.sabotage(
        "admit_message",
        "r.conversation_id = p_conversation and r.state = 'queued'",
        "r.tenant_id = p_tenant and r.state || '' = 'queued'",
      );
    }
    const read: number[] = [];
    const process = await own.process();
    await crowd(own, process);
    const before = (await settledReads(own, process)).rowCount;
    const place = await own.conversation();
    for (let count = 1; count <= LATE; count += 1) {
      await turn(process, place);
      if (count === EARLY) {
        read.push((await settledReads(own, process)).rowCount);
      }
    }
    read.push((await settledReads(own, process)).rowCount);
    const perTurn = { early: (read[0]! - before) / EARLY, late: (read[1]! - read[0]!) / (LATE - EARLY) };
    expect(perTurn.late, "INV-24: rows read per turn").toBeLessThan(perTurn.early * 1.2);
  },
});
