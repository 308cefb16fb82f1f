import { makeId, revisionOf, type LiveDelta, type OwnerEvent } from "@signalbox/contract";
import { createVirtualTime, type VirtualTime } from "@signalbox/testkit";
import { beforeEach, describe, expect, it } from "vitest";
import { LIMITS, type Limits } from "../kernel/limits.ts";
import type { Ownership } from "../ports/ownership-record.ts";
import type { WorkerEvent } from "../ports/worker.ts";
import { Emitter } from "./emitter.ts";

const TURN = makeId("turn", new Uint8Array(16));
const ITEM = "itm_a";

let time: VirtualTime;
let live: LiveDelta[];
/** What each append brought, and when it was asked for. */
let appends: { readonly atMs: number; readonly rows: readonly OwnerEvent[] }[];
let appendTakesMs: number;
let refusals: string[];

beforeEach(() => {
  time = createVirtualTime();
  live = [];
  appends = [];
  appendTakesMs = 5;
  refusals = [];
});

function emitterWith(
  options: { readonly limits?: Partial<Limits>; readonly append?: Ownership["append"] } = {},
): Emitter {
  const append: Ownership["append"] = async (rows) => {
    appends.push({ atMs: time.clock.monotonicMs(), rows });
    await time.clock.sleep(appendTakesMs);
  };
  // The emitter looks at three facts of the claim and at `append`; a whole ownership would hide that.
  const claim = { conversationId: "cnv_1", runId: "run_1", generation: 3 };
  const ownership = { claim, append: options.append ?? append } as unknown as Ownership;
  const unused = undefined as never;
  return new Emitter({
    ownership,
    turnId: TURN,
    ports: { ...time, pool: unused, live: { publish: (delta) => live.push(delta) } },
    limits: { ...LIMITS, ...options.limits },
    onRefused: ({ code }) => refusals.push(code),
  });
}

function delta(offset: number, text: string, itemId = ITEM): WorkerEvent {
  return { type: "text.delta", itemId, offset, text };
}

/** Says something for which nobody has to wait. */
function said(emitter: Emitter, event: WorkerEvent): void {
  expect(emitter.emit(event)).toBeUndefined();
}

const rowsOf = () => appends.map(({ rows }) => rows.map((row) => `${row.type} ${JSON.stringify(row.data)}`));

describe("an emitter", () => {
  it("publishes every delta at once, and writes what came in about 100 ms as one row", async () => {
    const emitter = emitterWith();
    for (const [offset, text] of ["a", "b", "c"].entries()) {
      said(emitter, delta(offset, text));
      await time.pass(20);
    }
    expect(live.map(({ offset, text, revision }) => [offset, text, revision])).toEqual([
      [0, "a", revisionOf(3, 1)],
      [1, "b", revisionOf(3, 2)],
      [2, "c", revisionOf(3, 3)],
    ]);
    expect(appends).toHaveLength(0);
    await time.pass(100);
    expect(rowsOf()).toEqual([['text.delta {"offset":0,"text":"abc"}']]);
    expect(appends[0]?.rows[0]?.revision).toBe(revisionOf(3, 3));
    await emitter[Symbol.asyncDispose]();
  });

  it("writes more seldom while the record is slow, one append at a time, and never holds a delta back", async () => {
    appendTakesMs = 450;
    const emitter = emitterWith();
    for (let offset = 0; offset < 50; offset += 1) {
      said(emitter, delta(offset, "x"));
      await time.pass(20);
    }
    expect(live).toHaveLength(50);
    const startedAtMs = appends.map(({ atMs }) => atMs);
    expect(startedAtMs.length).toBeLessThanOrEqual(3);
    for (const [index, atMs] of startedAtMs.entries()) {
      expect(atMs - (startedAtMs[index - 1] ?? Number.NEGATIVE_INFINITY)).toBeGreaterThanOrEqual(appendTakesMs);
    }
    await time.until(emitter.durable());
    const written = appends.flatMap(({ rows }) => rows.map((row) => ("text" in row.data ? row.data.text : "")));
    expect(written.join("")).toBe("x".repeat(50));
  });

  it("writes a closing row without waiting, whole, and without the part it closes", async () => {
    const emitter = emitterWith();
    said(emitter, delta(0, "hello"));
    said(emitter, { type: "text.completed", itemId: ITEM, text: "hello you" });
    await time.until(emitter.durable());
    expect(rowsOf()).toEqual([['text.completed {"text":"hello you"}']]);
    expect(appends[0]?.atMs).toBe(0);
    expect(emitter.latestText()).toBe("hello you");
  });

  it("makes the worker wait while too much text is not durable, and no longer", async () => {
    appendTakesMs = 300;
    const emitter = emitterWith({ limits: { unflushedChars: 10 } });
    expect(emitter.emit(delta(0, "0123456789"))).toBeUndefined();
    const wait = emitter.emit(delta(10, "more"));
    expect(wait).toBeInstanceOf(Promise);
    await time.until(wait!);
    expect(appends.map(({ atMs }) => atMs)).toEqual([0]);
    expect(time.clock.monotonicMs()).toBe(300);
    expect(emitter.emit(delta(14, "on"))).toBeUndefined();
    await emitter[Symbol.asyncDispose]();
  });

  it("keeps a surrogate pair whole that came in two deltas, and replaces what is no text", async () => {
    const emitter = emitterWith();
    said(emitter, delta(0, "a\ud83d"));
    said(emitter, delta(2, "\ude00b"));
    said(emitter, delta(4, "\u0000"));
    expect(live.map(({ offset, text }) => [offset, text])).toEqual([
      [0, "a"],
      [1, "\u{1f600}b"],
      [4, "\uFFFD"],
    ]);
    await time.until(emitter.durable());
  });

  it("trims what was said already, and refuses a gap, a word after the end, and a text without end", () => {
    const emitter = emitterWith({ limits: { itemChars: 8 } });
    said(emitter, delta(0, "abc"));
    said(emitter, delta(1, "bcd"));
    said(emitter, delta(0, "ab"));
    expect(live.map(({ text }) => text)).toEqual(["abc", "d"]);
    expect(() => emitter.emit(delta(9, "x"))).toThrow(expect.objectContaining({ code: "engine_failed" }));
    expect(() => emitter.emit(delta(4, "56789"))).toThrow(expect.objectContaining({ code: "payload_too_large" }));
    said(emitter, { type: "text.completed", itemId: ITEM, text: "abcd" });
    expect(() => emitter.emit(delta(4, "e"))).toThrow(expect.objectContaining({ code: "engine_failed" }));
  });

  it("takes back what earlier attempts showed, once, and closes what is still open", async () => {
    const emitter = emitterWith();
    const earlier = { itemId: "itm_old", kind: "thinking" } as const;
    emitter.retract([earlier, earlier], "owner_lost");
    said(emitter, delta(0, "half"));
    said(emitter, { type: "text.completed", itemId: "itm_b", text: "whole" });
    emitter.closeOpen({ as: "retracted", cause: "provider_error" });
    await time.until(emitter.durable());
    expect(rowsOf().flat()).toEqual([
      'text.retracted {"cause":"owner_lost"}',
      'text.completed {"text":"whole"}',
      'text.retracted {"cause":"provider_error"}',
    ]);
    expect(emitter.latestText()).toBe("whole");
    expect(emitter.shown()).toEqual([{ itemId: "itm_b", kind: "text" }]);
  });

  it("says nothing more once the record has refused, and lets nobody wait for it", async () => {
    const emitter = emitterWith({ append: () => Promise.reject(new Error("gone")) });
    said(emitter, { type: "text.completed", itemId: ITEM, text: "late" });
    await expect(time.until(emitter.durable())).rejects.toMatchObject({ code: "internal" });
    said(emitter, { type: "text.completed", itemId: "itm_b", text: "later" });
    await expect(time.until(emitter.durable())).rejects.toMatchObject({ code: "internal" });
    expect(refusals).toEqual(["internal"]);
    await emitter[Symbol.asyncDispose]();
  });

  it("drops a phase that does not exist, and tells it", async () => {
    const emitter = emitterWith();
    said(emitter, { type: "run.phase", phase: "dreaming" });
    said(emitter, { type: "run.phase", phase: "writing" });
    await time.until(emitter.durable());
    expect(rowsOf().flat()).toEqual(['run.phase {"phase":"writing"}']);
    expect(time.lines.join()).toContain("dreaming");
  });
});
