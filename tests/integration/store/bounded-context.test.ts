import { expect } from "vitest";
import { proves } from "../../setup/proves.ts";
import { finishRun, startedRun, type ConversationPlace } from "./record-parts.ts";
import { openQuietServer } from "./quiet-server.ts";
import type { RecordProcess, RecordWorld } from "./record-world.ts";
import { settledReads, type Reads } from "./rows-read.ts";

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

/** The engine goes on from what there is, and every few turns begins anew with a summary and the last rows before it. */
async function compactedTurn(process: RecordProcess, place: ConversationPlace, count: number): Promise<void> {
  const bound = await process.bind((await startedRun(process, place)).ownership);
  await loadAll(process, bound.tokenHash);
  const rows = rowsOf(`${count} said`);
  const compaction = { entryId: rows[0]!.entryId, keptEntryIds: rowsOf(`${count - 1} said`).map((row) => row.entryId) };
  await process.gates.appendTranscript(bound.tokenHash, rows, count % WINDOW === 0 ? { compaction } : {});
  await finishRun(bound.ownership, { rung: "native" });
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

interface Looked {
  readonly own: RecordWorld;
  readonly process: RecordProcess;
  readonly place: ConversationPlace;
}

/** Reads and entries after the turns that are looked at. */
class Looks {
  readonly #reads = new Map<number, Reads>();
  readonly #stored = new Map<number, number>();

  async take(count: number, { own, process, place }: Looked): Promise<void> {
    this.#reads.set(count, await settledReads(own, process));
    const { entries } = await own.one<{ entries: number }>(
      "select count(*) as entries from signalbox.transcript_entry where conversation_id = $1",
      [place.conversationId],
    );
    this.#stored.set(count, entries);
  }

  expectLateAsEarly(): void {
    expect(this.#cost(LATE, "rowCount"), "INV-24: rows read per turn").toBeLessThan(
      this.#cost(EARLY, "rowCount") * 1.2,
    );
    expect(this.#cost(LATE, "bufferCount"), "INV-24: buffers per turn").toBeLessThan(
      this.#cost(EARLY, "bufferCount") * 1.2,
    );
    expect(this.#stored.get(LATE), "INV-24: entries stored").toBe(this.#stored.get(EARLY));
  }

  #cost(until: number, of: keyof Reads): number {
    const { [of]: before } = this.#reads.get(until - WINDOW) ?? NOTHING;
    const { [of]: after } = this.#reads.get(until) ?? NOTHING;
    return (after - before) / WINDOW;
  }
}

const NOTHING: Reads = { rowCount: NaN, bufferCount: NaN };

async function expectLateAsEarly(own: RecordWorld, countedAfter: number | null, one = turn): Promise<void> {
  const place = await own.conversation();
  const process = await own.process();
  const looks = new Looks();
  for (let count = 1; count <= LATE; count += 1) {
    await one(process, place, count);
    if (count === countedAfter) {
      await own.superuser.query("analyze signalbox.transcript_entry");
    }
    if ([EARLY - WINDOW, EARLY, LATE - WINDOW, LATE].includes(count)) {
      await looks.take(count, { own, process, place });
    }
  }
  looks.expectLateAsEarly();
}

proves("INV-24", {
  title: "turn 200 stores, reads and loads what turn 10 did when the model reads as much",
  sabotages: ["superseded_entries_stay"],
  timeoutMs: 120_000,
  async holds(sabotage) {
    await using server = await openQuietServer();
    const { own } = server;
    if (sabotage === "superseded_entries_stay") {
      await own.sabotage(
        "settle_transcript",
        "delete from signalbox.transcript_entry t\n    where t.conversation_id = p_conversation and (p_continuity = 'broken' or ",
        "update signalbox.transcript_entry t set cut = true\n    where t.conversation_id = p_conversation and not t.cut and (",
      );
    }
    await expectLateAsEarly(own, null);
  },
});

proves("INV-24", {
  title: "and so it does when the engine reads what is left of a compaction",
  sabotages: ["compacted_entries_stay"],
  timeoutMs: 120_000,
  async holds(sabotage) {
    await using server = await openQuietServer();
    const { own } = server;
    if (sabotage === "compacted_entries_stay") {
      await own.sabotage("kept_by_compaction", "order by t.position desc limit 1", "order by t.position desc limit 0");
    }
    await expectLateAsEarly(own, null, compactedTurn);
  },
});

proves("INV-24", {
  title: "it does so whenever the server last counted its rows",
  sabotages: ["plans_as_counted_early", "plans_as_counted_late"],
  timeoutMs: 240_000,
  async holds(sabotage) {
    for (const countedAfter of [EARLY - WINDOW, EARLY + WINDOW]) {
      await using server = await openQuietServer();
      const { own } = server;
      if (sabotage === (countedAfter < EARLY ? "plans_as_counted_early" : "plans_as_counted_late")) {
        await own.superuser.query(
          "alter function signalbox.settle_transcript(text, bigint, text, text, text, bytea) reset all",
        );
      }
      await expectLateAsEarly(own, countedAfter);
    }
  },
});
