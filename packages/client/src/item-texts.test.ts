import { revisionOf, type EventOf, type PlatformEvent } from "@signalbox/contract";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { ItemTexts } from "./item-texts.ts";

const ENVELOPE = {
  conversationId: "cnv_1",
  runId: "run_1",
  turnId: "trn_1",
  traceId: null,
  at: "2026-03-01T12:00:00.000Z",
};

/** One attempt of a run: what its engine said, and how much of it became rows before its owner died. */
interface Attempt {
  readonly items: readonly Said[];
}

interface Said {
  readonly kind: "text" | "thinking";
  readonly parts: readonly string[];
  /** Parts that became rows; the last attempt records all. */
  readonly recordedCount: number;
  /** How many parts make a row. */
  readonly partsPerRow: number;
  readonly retracted: boolean;
}

const said: fc.Arbitrary<Said> = fc.record({
  kind: fc.constantFrom("text" as const, "thinking" as const),
  parts: fc.array(fc.constantFrom("a", "bc", "🚀", "你好", "\n", "xyz "), { minLength: 1, maxLength: 6 }),
  recordedCount: fc.nat({ max: 6 }),
  partsPerRow: fc.integer({ min: 1, max: 4 }),
  retracted: fc.boolean(),
});
const attempts: fc.Arbitrary<readonly Attempt[]> = fc.array(
  fc.record({ items: fc.array(said, { minLength: 1, maxLength: 3 }) }),
  { minLength: 1, maxLength: 3 },
);

interface Story {
  /** The log, in order. */
  readonly rows: readonly PlatformEvent[];
  /** Every live delta there was, in the order it was sent. */
  readonly live: readonly PlatformEvent[];
  /** The text of each item that stays. */
  readonly texts: ReadonlyMap<string, string>;
}

/** What a log and a live channel say about these attempts, by the rules of the platform. */
function tell(all: readonly Attempt[]): Story {
  const rows: PlatformEvent[] = [];
  const live: PlatformEvent[] = [];
  const texts = new Map<string, string>();
  let shown: string[] = [];
  const row = (event: object): void => {
    // Assembled from a type's own members by the lines below.
    rows.push({ ...ENVELOPE, sequence: rows.length + 1, ...event } as PlatformEvent);
  };
  all.forEach(({ items }, at) => {
    const generation = at + 1;
    const last = at === all.length - 1;
    let step = 0;
    const stamp = () => ({ generation, revision: revisionOf(generation, (step += 1)) });
    if (at === 0) row({ type: "run.started", itemId: "run_1", ...stamp(), runtime: "scripted", attempt: 1 });
    else row({ type: "run.recovered", itemId: "run_1", ...stamp(), cause: "owner_lost", attempt: generation });
    for (const itemId of shown) row({ type: "text.retracted", itemId, ...stamp(), cause: "recovered" });
    shown = [];
    items.forEach((item, index) => {
      const itemId = `itm_${generation}_${index}`;
      const type = `${item.kind}.delta`;
      let offset = 0;
      for (const text of item.parts) {
        live.push({ ...ENVELOPE, type, itemId, sequence: null, ...stamp(), offset, text } as PlatformEvent);
        offset += text.length;
      }
      const count = last ? item.parts.length : Math.min(item.recordedCount, item.parts.length);
      for (let from = 0; from < count; from += item.partsPerRow) {
        const to = Math.min(from + item.partsPerRow, count);
        const before = item.parts.slice(0, from).join("").length;
        row({ type, itemId, ...stamp(), offset: before, text: item.parts.slice(from, to).join("") });
      }
      const text = item.parts.join("");
      if (last && item.retracted) row({ type: "text.retracted", itemId, ...stamp(), cause: "retried" });
      else if (last) row({ type: `${item.kind}.completed`, itemId, ...stamp(), text });
      else if (count > 0) shown.push(itemId);
      if (last && !item.retracted) texts.set(itemId, text);
    });
  });
  row({
    type: "run.finished",
    itemId: "run_1",
    generation: all.length,
    revision: revisionOf(all.length, 900),
    outcome: "completed",
    reason: "answered",
    error: null,
    messageId: null,
  });
  return { rows, live, texts };
}

/** The log in its order, with live deltas lost, doubled and delayed at will. */
function interleaved({ rows, live }: Story, fates: readonly (readonly number[])[]): readonly PlatformEvent[] {
  const places = live.flatMap((delta, at) => (fates[at % fates.length] ?? []).map((fate) => ({ delta, fate })));
  const stream: PlatformEvent[] = [];
  for (let at = 0; at <= rows.length; at += 1) {
    stream.push(...places.filter(({ fate }) => fate % (rows.length + 1) === at).map(({ delta }) => delta));
    const row = rows[at];
    if (row !== undefined) stream.push(row);
  }
  return stream;
}

const fates = fc.array(fc.array(fc.nat({ max: 1_000 }), { maxLength: 3 }), { minLength: 1, maxLength: 40 });

/** What somebody has on screen who only ever adds and takes back. */
class Screen {
  readonly texts = new Map<string, string>();
  readonly closed = new Set<string>();

  show(event: PlatformEvent): void {
    if (event.type === "text.delta" || event.type === "thinking.delta") {
      const before = this.texts.get(event.itemId) ?? "";
      expect(event.offset, "a delta follows on what is shown").toBe(before.length);
      expect(this.closed, "nothing is said about a closed item").not.toContain(event.itemId);
      this.texts.set(event.itemId, before + event.text);
    }
    if (event.type === "text.completed" || event.type === "thinking.completed") {
      expect(this.texts.get(event.itemId) ?? "", "the deltas are the text").toBe(event.text);
      this.closed.add(event.itemId);
    }
    if (event.type === "text.retracted") {
      this.texts.delete(event.itemId);
      this.closed.add(event.itemId);
    }
  }
}

describe("ItemTexts", () => {
  it("shows exactly the text that stays, whatever happens to live deltas", () => {
    fc.assert(
      fc.property(attempts, fates, (all, fate) => {
        const story = tell(all);
        const texts = new ItemTexts();
        const screen = new Screen();
        for (const event of interleaved(story, fate)) for (const news of texts.accept(event)) screen.show(news);
        expect(screen.texts).toEqual(story.texts);
      }),
      { numRuns: 500 },
    );
  });

  it("hands on everything of the log that is not text, in order", () => {
    fc.assert(
      fc.property(attempts, fates, (all, fate) => {
        const story = tell(all);
        const texts = new ItemTexts();
        const isText = (event: PlatformEvent) => event.type.endsWith(".delta") || event.sequence === null;
        const handedOn = interleaved(story, fate)
          .flatMap((event) => texts.accept(event))
          .filter((event) => !isText(event));
        expect(handedOn).toEqual(story.rows.filter((event) => !isText(event)));
      }),
    );
  });

  it("ends with the same text for a reader that comes in anywhere", () => {
    fc.assert(
      fc.property(attempts, fates, fc.nat({ max: 1_000 }), (all, fate, place) => {
        const story = tell(all);
        const cursor = place % story.rows.length;
        const known = new Map<string, string>();
        const read = (event: PlatformEvent): void => {
          if ("offset" in event) {
            const before = known.get(event.itemId) ?? "";
            known.set(event.itemId, before.slice(0, event.offset) + event.text);
          } else if (event.type === "text.completed" || event.type === "thinking.completed") {
            known.set(event.itemId, event.text);
          } else if (event.type === "text.retracted") {
            known.delete(event.itemId);
          }
        };
        const first = new ItemTexts();
        for (const event of story.rows.slice(0, cursor)) first.accept(event).forEach(read);
        // What closed before this reader came is not said again.
        const closed = new Set(
          story.rows
            .slice(0, cursor)
            .filter((event) => /completed|retracted/.test(event.type))
            .map((event) => event.itemId),
        );
        const second = new ItemTexts();
        const rest = interleaved(story, fate).filter((event) =>
          event.sequence === null ? !closed.has(event.itemId) : event.sequence > cursor,
        );
        for (const event of rest) second.accept(event).forEach(read);
        expect(Object.fromEntries(story.texts)).toEqual(
          Object.fromEntries([...known].filter(([itemId]) => story.texts.has(itemId))),
        );
      }),
      { numRuns: 300 },
    );
  });
});

describe("a closing item", () => {
  const delta = (text: string): EventOf<"text.delta"> => ({
    ...ENVELOPE,
    type: "text.delta",
    itemId: "itm_1",
    sequence: null,
    revision: revisionOf(1, 1),
    generation: 1,
    offset: 0,
    text,
  });
  const completed = (text: string, step: number): EventOf<"text.completed"> => ({
    ...ENVELOPE,
    type: "text.completed",
    itemId: "itm_1",
    sequence: step,
    revision: revisionOf(1, step),
    generation: 1,
    text,
  });

  it("that goes on brings what was missing first", () => {
    const texts = new ItemTexts();
    texts.accept(delta("Hel"));
    expect(texts.accept(completed("Hello", 2))).toEqual([
      { ...completed("Hello", 2), type: "text.delta", sequence: null, offset: 3, text: "lo" },
      completed("Hello", 2),
    ]);
  });

  it("that says something else is handed on alone, as the text that replaces the other", () => {
    const texts = new ItemTexts();
    texts.accept(delta("Hullo wor"));
    expect(texts.accept(completed("Hello", 2))).toEqual([completed("Hello", 2)]);
    expect(texts.accept(delta("Hullo world"))).toEqual([]);
  });

  it("is replaced by a newer form of itself, and by no older one", () => {
    const texts = new ItemTexts();
    texts.accept(completed("Hello", 3));
    expect(texts.accept(completed("Hell", 2))).toEqual([]);
    expect(texts.accept(completed("[removed]", 4))).toEqual([completed("[removed]", 4)]);
  });

  it("may be replaced after its run has ended, and is not told twice", () => {
    const texts = new ItemTexts();
    const finished: EventOf<"run.finished"> = {
      ...ENVELOPE,
      type: "run.finished",
      itemId: "run_1",
      sequence: 4,
      revision: revisionOf(1, 4),
      generation: 1,
      outcome: "completed",
      reason: "answered",
      error: null,
      messageId: null,
    };
    texts.accept(completed("Hello", 3));
    texts.accept(finished);
    expect(texts.accept(completed("[removed]", 5))).toEqual([completed("[removed]", 5)]);
    expect(texts.accept(delta("late"))).toEqual([]);
  });
});
