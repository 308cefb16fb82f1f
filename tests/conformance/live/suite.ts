import type { LiveDelta, RunId, TurnId } from "@signalbox/contract";
import type { LiveSignal, LiveSubscription } from "@signalbox/core";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { until } from "../../setup/until.ts";
import { newId } from "../record/story.ts";
import type { LiveBench, OpenLiveBench } from "./bench.ts";

const RUN: RunId = newId("run");
const TURN: TurnId = newId("turn");
const MANY = 2_000;
/** More than any channel may keep for a reader that takes nothing. */
const FLOOD = 20_000;
const KEPT_AT_MOST = 5_000;

/** Holds a live channel to what the ports promise, whatever carries it. */
export function liveConformance(name: string, open: OpenLiveBench, options: { readonly losesBells: boolean }): void {
  describe(`the live channel: ${name}`, () => {
    let opened: LiveBench | null = null;
    const bench = (): LiveBench => {
      if (opened === null) throw new Error("the bench is not open yet");
      return opened;
    };
    beforeEach(async () => {
      opened = await open();
    });
    afterEach(async () => {
      await opened?.[Symbol.asyncDispose]();
      opened = null;
    });
    readersSuite(bench);
    bellsSuite(bench);
    if (options.losesBells) lossSuite(bench);
  });
}

function readersSuite(bench: () => LiveBench): void {
  it("hands deltas to every reader of the conversation in order, and to nobody else", async () => {
    const { near } = bench();
    const [mine, others] = [newId("conversation"), newId("conversation")];
    using first = near.subscribe(mine);
    using second = near.subscribe(mine);
    using other = near.subscribe(others);
    for (const text of ["a", "b", "c"]) near.publish(delta(mine, text));
    near.publish(delta(others, "z"));
    for (const reader of [first, second]) expect(textsOf(await take(reader, 3))).toEqual(["a", "b", "c"]);
    expect(textsOf(await take(other, 1))).toEqual(["z"]);
  });

  it("keeps a bounded number for a reader that takes nothing, and tells it to read the record", async () => {
    const { near } = bench();
    const conversationId = newId("conversation");
    using slow = near.subscribe(conversationId);
    for (let index = 0; index < FLOOD; index += 1) near.publish(delta(conversationId, `${index}`));
    const signals: LiveSignal[] = [];
    for await (const signal of slow) {
      signals.push(signal);
      if (signal.kind === "delta" && signal.delta.text === `${FLOOD - 1}`) break;
    }
    expect(signals.length).toBeLessThan(KEPT_AT_MOST);
    expect(signals[0]).toEqual({ kind: "reread" });
  });

  it("ends the loop of a reader that is closed while it waits, and says nothing to it after that", async () => {
    const { near } = bench();
    const conversationId = newId("conversation");
    const reader = near.subscribe(conversationId);
    const taken = take(reader, 1);
    reader.close();
    near.publish(delta(conversationId, "late"));
    expect(await taken).toEqual([]);
  });
}

function bellsSuite(bench: () => LiveBench): void {
  it("rings readers near and far, up to the newest sequence, and never back after it", async () => {
    const { near, far } = bench();
    const conversationId = newId("conversation");
    using here = near.subscribe(conversationId);
    using there = far.subscribe(conversationId);
    for (const sequence of [4, 9, 7]) near.ring(conversationId, sequence);
    for (const reader of [here, there]) {
      let newest = 0;
      for await (const signal of reader) {
        if (signal.kind !== "bell") continue;
        expect(signal.sequence).toBeGreaterThan(newest);
        newest = signal.sequence;
        if (newest === 9) break;
      }
    }
  });

  it("carries the bells of many conversations at once", async () => {
    const { near, far } = bench();
    const conversations = Array.from({ length: MANY }, () => newId("conversation"));
    const readers = conversations.map((conversationId) => far.subscribe(conversationId));
    conversations.forEach((conversationId, index) => near.ring(conversationId, index + 1));
    for (const [index, reader] of readers.entries()) {
      expect(await take(reader, 1)).toEqual([{ kind: "bell", sequence: index + 1 }]);
      reader.close();
    }
  });

  it("rings the supervisors near and far, and none that has left", async () => {
    const { near, far } = bench();
    let [hereCount, thereCount, leftCount] = [0, 0, 0];
    near.onSupervisorsRung(() => (hereCount += 1));
    far.onSupervisorsRung(() => (thereCount += 1));
    far.onSupervisorsRung(() => (leftCount += 1))();
    near.ringSupervisors();
    await until("all have heard it", () => hereCount > 0 && thereCount > 0);
    expect(leftCount).toBe(0);
  });

  it("rings the gates near and far with the conversation, apart from its readers, and none that has left", async () => {
    const { near, far } = bench();
    const conversations = Array.from({ length: MANY }, () => newId("conversation"));
    const [here, there, left] = [new Set<string | null>(), new Set<string | null>(), new Set<string | null>()];
    near.onGatesRung((conversationId) => here.add(conversationId));
    far.onGatesRung((conversationId) => there.add(conversationId));
    far.onGatesRung((conversationId) => left.add(conversationId))();
    for (const conversationId of conversations) near.ringGates(conversationId);
    await until("all have heard all", () => here.size === MANY && there.size === MANY);
    expect(there).toEqual(new Set(conversations));
    expect(left.size).toBe(0);
  });
}

function lossSuite(bench: () => LiveBench): void {
  it("has everybody look after bells may have been lost, and hears the next ones", async () => {
    const { near, far, interrupt } = bench();
    const conversationId = newId("conversation");
    using reader = far.subscribe(conversationId);
    const gates: (string | null)[] = [];
    let supervisorsCount = 0;
    far.onGatesRung((rung) => gates.push(rung));
    far.onSupervisorsRung(() => (supervisorsCount += 1));
    await interrupt();
    expect(await take(reader, 1)).toEqual([{ kind: "reread" }]);
    await until("supervisors and gates look", () => supervisorsCount > 0 && gates.includes(null));
    near.ring(conversationId, 3);
    expect(await take(reader, 1)).toEqual([{ kind: "bell", sequence: 3 }]);
  });
}

function delta(conversationId: string, text: string): LiveDelta {
  const item = { itemId: "itm", revision: 1, offset: 0 };
  return { type: "text.delta", conversationId, runId: RUN, turnId: TURN, generation: 1, ...item, text };
}

function textsOf(signals: readonly LiveSignal[]): readonly string[] {
  return signals.flatMap((signal) => (signal.kind === "delta" ? [signal.delta.text] : []));
}

async function take(subscription: LiveSubscription, count: number): Promise<readonly LiveSignal[]> {
  const signals: LiveSignal[] = [];
  const iterator = subscription[Symbol.asyncIterator]();
  while (signals.length < count) {
    const next = await iterator.next();
    if (next.done === true) break;
    signals.push(next.value);
  }
  return signals;
}
