import { expect } from "vitest";
import { proves } from "../../setup/proves.ts";
import { finishRun, startedRun, type ConversationPlace } from "./record-parts.ts";
import { RecordWorld, type RecordProcess } from "./record-world.ts";
import { leaveUncleaned, settledReads, type Reads } from "./rows-read.ts";

/** Turns between two looks; what is compared is the average over them. */
const WINDOW = 5;
const EARLY = 10;
const LATE = 200;
const ENTRIES_PER_TURN = 8;
const ITEM = Buffer.alloc(500, "x");

/** The model reads what this turn wrote and nothing before: its session is rebuilt, as after a change of runtime. */
async function turn(process: RecordProcess, place: ConversationPlace, count: number): Promise<void> {
  const first = await process.bind((await startedRun(process, place)).ownership);
  await loadAll(process, first.tokenHash);
  await process.gates.appendTranscript(first.tokenHash, rowsOf(`${count} lost`));
  // A worker dies with half a turn in the transcript; what it left is adopted, cannot be continued and is dropped.
  const next = await process.bind(await first.ownership.changeWorker({ attemptLimit: 5 }));
  await next.ownership.takeOver({ adopt: true });
  await next.ownership.dropTail();
  await process.gates.appendTranscript(next.tokenHash, rowsOf(`${count} kept`));
  await loadAll(process, next.tokenHash);
  await finishRun(next.ownership, { rung: "rebuilt" });
}

function rowsOf(name: string) {
  const kinds = ["item", "state"] as const;
  return Array.from({ length: ENTRIES_PER_TURN }, (_, at) => ({
    kind: kinds[at % 2] ?? "item",
    entryId: `${name} ${at}`,
    stream: "",
    body: ITEM,
  }));
}

async function loadAll(process: RecordProcess, tokenHash: string): Promise<void> {
  for await (const page of process.gates.loadTranscript(tokenHash)) expect(page.length).toBeGreaterThan(0);
}

proves("INV-24", {
  title: "turn 200 stores, reads and loads what turn 10 did when the model reads as much",
  sabotages: ["superseded_entries_stay"],
  timeoutMs: 120_000,
  async holds(sabotage) {
    await using own = await RecordWorld.open();
    await leaveUncleaned(own);
    if (sabotage === "superseded_entries_stay") {
      await own.sabotage(
        "settle_transcript",
        "delete from signalbox.transcript_entry t\n    where t.conversation_id = p_conversation and (p_continuity = 'broken' or ",
        "update signalbox.transcript_entry t set cut = true\n    where t.conversation_id = p_conversation and not t.cut and (",
      );
    }
    const place = await own.conversation();
    const process = await own.process();
    const looks = new Map<number, Reads>();
    const stored = new Map<number, number>();
    for (let count = 1; count <= LATE; count += 1) {
      await turn(process, place, count);
      if ([EARLY - WINDOW, EARLY, LATE - WINDOW, LATE].includes(count)) {
        looks.set(count, await settledReads(own, process));
        const { entries } = await own.one<{ entries: number }>(
          "select count(*) as entries from signalbox.transcript_entry where conversation_id = $1",
          [place.conversationId],
        );
        stored.set(count, entries);
      }
    }
    const cost = (until: number, of: keyof Reads): number =>
      ((looks.get(until)?.[of] ?? NaN) - (looks.get(until - WINDOW)?.[of] ?? NaN)) / WINDOW;
    expect(cost(LATE, "rowCount"), "INV-24: rows read per turn").toBeLessThan(cost(EARLY, "rowCount") * 1.2);
    expect(cost(LATE, "bufferCount"), "INV-24: buffers per turn").toBeLessThan(cost(EARLY, "bufferCount") * 1.2);
    expect(stored.get(LATE), "INV-24: entries stored").toBe(stored.get(EARLY));
  },
});
