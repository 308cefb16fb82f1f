/** Every reader ends with the same items, in whatever order, with whatever overlap and repetition it got the events. */
import { revisionOf, type LiveDelta, type PlatformEvent } from "@signalbox/contract";
import {
  createItemFold,
  createPendingRows,
  createRevisionStamps,
  type FoldedItem,
  type PartDelta,
} from "@signalbox/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";

interface History {
  readonly durable: readonly PlatformEvent[];
  readonly live: readonly LiveDelta[];
}

const RUN = "run_1";

/** An owner that streams items in pieces, makes some of it durable, and is perhaps replaced in the middle. */
const history: fc.Arbitrary<History> = fc
  .array(
    fc.record({
      chunks: fc.array(fc.string({ minLength: 1, maxLength: 4 }), { minLength: 1, maxLength: 6 }),
      rowAfter: fc.integer({ min: 1, max: 3 }),
      end: fc.constantFrom("completed", "retracted", "lost"),
    }),
    { minLength: 1, maxLength: 4 },
  )
  .map((items) => tell(items));

interface PlannedItem {
  readonly chunks: readonly string[];
  readonly rowAfter: number;
  readonly end: "completed" | "retracted" | "lost";
}

function tell(items: readonly PlannedItem[]): History {
  const durable: PlatformEvent[] = [];
  const live: LiveDelta[] = [];
  const add = (event: object): void => {
    durable.push({ ...envelope(durable.length + 1), ...event } as PlatformEvent);
  };
  items.forEach((item, index) => {
    const itemId = `itm_${index}`;
    const stamps = createRevisionStamps(1);
    const rows = createPendingRows();
    let text = "";
    item.chunks.forEach((chunk, at) => {
      const part: PartDelta = {
        type: "text.delta",
        itemId,
        revision: stamps.open(itemId),
        offset: text.length,
        text: chunk,
      };
      live.push({ ...part, conversationId: "cnv_1", runId: RUN, turnId: "trn_1", generation: 1 });
      rows.part(part);
      text += chunk;
      if (at % item.rowAfter === item.rowAfter - 1) {
        for (const row of rows.take(10)) add({ type: row.type, itemId, revision: row.revision, ...row.data });
      }
    });
    if (item.end === "completed") add({ type: "text.completed", itemId, revision: stamps.close(itemId), text });
    if (item.end === "retracted") {
      add({ type: "text.retracted", itemId, revision: stamps.close(itemId), cause: "retry" });
    }
    // A new owner takes back what the log has of it; what only ever was live it does not know.
    const known = durable.some((event) => event.itemId === itemId);
    if (item.end === "lost" && known) {
      add({ type: "text.retracted", itemId, revision: revisionOf(2, 1), generation: 2, cause: "owner_lost" });
    }
  });
  add({ type: "run.finished", itemId: RUN, revision: revisionOf(2, 9), generation: 2 });
  return { durable, live };
}

function envelope(sequence: number) {
  return { sequence, conversationId: "cnv_1", runId: RUN, turnId: "trn_1", traceId: null, generation: 1, at: "" };
}

function read(events: readonly (PlatformEvent | LiveDelta)[]): readonly FoldedItem[] {
  const fold = createItemFold();
  for (const event of events) fold.apply(event);
  return fold.items().toSorted((left, right) => (left.itemId < right.itemId ? -1 : 1));
}

/** Any order of all durable events and some of the live ones, some of them more than once. */
function anyReading(told: History): fc.Arbitrary<readonly (PlatformEvent | LiveDelta)[]> {
  return fc
    .tuple(fc.subarray([...told.live]), fc.subarray([...told.durable]), fc.subarray([...told.live]))
    .chain(([some, again, more]) => {
      const all: (PlatformEvent | LiveDelta)[] = [...told.durable, ...some, ...again, ...more];
      return fc.shuffledSubarray(all, { minLength: all.length });
    });
}

describe("the reader's fold", () => {
  it("ends the same for every order, overlap and repetition", () => {
    const reading = history.chain((told) => fc.tuple(fc.constant(told), anyReading(told)));
    fc.assert(
      fc.property(reading, ([told, events]) => {
        expect(read(events)).toEqual(read(told.durable));
      }),
      { numRuns: 400 },
    );
  });

  it("on the way never shows a text that was not being said", () => {
    const reading = history.chain((told) => fc.tuple(fc.constant(told), anyReading(told)));
    fc.assert(
      fc.property(reading, ([told, events]) => {
        const fold = createItemFold();
        for (const event of events) {
          fold.apply(event);
          for (const item of fold.items()) {
            const said = told.live.filter((delta) => delta.itemId === item.itemId).map((delta) => delta.text);
            expect(said.join("").startsWith(item.text)).toBe(true);
          }
        }
      }),
      { numRuns: 200 },
    );
  });

  it("the same story as a table: subscribe and replay overlap, a row is lost, an old owner speaks late", () => {
    const told = tell([{ chunks: ["ab", "cd", "ef"], rowAfter: 2, end: "completed" }]);
    const [row, closed, finished] = told.durable;
    const [first, second, third] = told.live;
    const whole = [
      { itemId: "itm_0", runId: RUN, kind: "text", state: "completed", revision: revisionOf(1, 4), text: "abcdef" },
    ];
    expect(read([second!, row!, first!]).map(({ text }) => text)).toEqual(["abcd"]);
    expect(read([third!, first!]).map(({ text }) => text)).toEqual(["ab"]);
    expect(read([closed!, third!, row!, finished!])).toEqual(whole);
  });
});

describe("pending rows", () => {
  it("whatever is taken when, what is written folds to what was said", () => {
    const step = fc.oneof(
      fc.record({
        kind: fc.constant("part" as const),
        item: fc.nat({ max: 2 }),
        text: fc.string({ minLength: 1, maxLength: 5 }),
      }),
      fc.record({ kind: fc.constant("close" as const), item: fc.nat({ max: 2 }) }),
      fc.record({ kind: fc.constant("take" as const), count: fc.integer({ min: 1, max: 3 }) }),
    );
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const rows = createPendingRows();
        const stamps = createRevisionStamps(1);
        const said = new Map<string, { text: string; closed: boolean }>();
        const written: PlatformEvent[] = [];
        const take = (count: number): void => {
          for (const { type, itemId, revision, data } of rows.take(count)) {
            written.push({ ...envelope(written.length + 1), type, itemId, revision, ...data } as PlatformEvent);
          }
        };
        for (const each of steps) {
          if (each.kind === "take") {
            take(each.count);
            continue;
          }
          const itemId = `itm_${each.item}`;
          const item = said.get(itemId) ?? { text: "", closed: false };
          said.set(itemId, item);
          if (item.closed) continue;
          if (each.kind === "part") {
            rows.part({
              type: "text.delta",
              itemId,
              revision: stamps.open(itemId),
              offset: item.text.length,
              text: each.text,
            });
            item.text += each.text;
          } else {
            rows.close({ type: "text.completed", itemId, revision: stamps.close(itemId), data: { text: item.text } });
            item.closed = true;
          }
        }
        take(1_000);
        expect([rows.rowCount, rows.chars, rows.urgent]).toEqual([0, 0, false]);
        const texts = read(written).map(({ itemId, text, state }) => [itemId, text, state === "completed"]);
        const expected = [...said].filter(([, { text, closed }]) => text !== "" || closed);
        expect(texts).toEqual(
          expected
            .toSorted(([left], [right]) => (left < right ? -1 : 1))
            .map(([id, { text, closed }]) => [id, text, closed]),
        );
      }),
      { numRuns: 400 },
    );
  });
});
