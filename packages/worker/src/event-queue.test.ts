import { describe, expect, it } from "vitest";
import { EventQueue, type StepOutput } from "./event-queue.ts";
import type { StepEvent, StepResult } from "./executor.ts";
import { EVENTS_WAITING_MAX, TEXT_WAITING_MAX } from "./limits.ts";

const RESULT: StepResult = {
  outcome: "done",
  answer: "a",
  stopReason: "end_turn",
  leaf: null,
  servedModel: "m",
  error: null,
};

function delta(offset: number, text: string, itemId = "itm_1"): StepEvent {
  return { type: "text.delta", itemId, offset, text };
}

function phase(): StepEvent {
  return { type: "run.phase", phase: "thinking" };
}

async function readAll(queue: EventQueue): Promise<readonly StepOutput[]> {
  const read: StepOutput[] = [];
  for await (const output of queue) {
    read.push(output);
  }
  return read;
}

describe("event queue", () => {
  it("hands events on in order and ends after the result", async () => {
    const queue = new EventQueue();
    expect(queue.push(phase())).toBeUndefined();
    expect(queue.push(delta(0, "a"))).toBeUndefined();
    queue.finish(RESULT);
    const read = await readAll(queue);
    expect(read.map((output) => (output.kind === "event" ? output.event.type : output.kind))).toEqual([
      "run.phase",
      "text.delta",
      "result",
    ]);
  });

  it("merges what waits behind each other and belongs together, and nothing else", async () => {
    const queue = new EventQueue();
    for (const event of [
      delta(0, "a"),
      delta(1, "b"),
      delta(0, "x", "itm_2"),
      delta(5, "gap", "itm_2"),
      phase(),
      delta(2, "c"),
    ]) {
      expect(queue.push(event)).toBeUndefined();
    }
    queue.finish(RESULT);
    const texts = (await readAll(queue)).flatMap((output) =>
      output.kind === "event" && "offset" in output.event ? [`${output.event.offset}${output.event.text}`] : [],
    );
    expect(texts).toEqual(["0ab", "0x", "5gap", "2c"]);
  });

  it("makes the engine wait when too many events wait, until half of them are read", async () => {
    const queue = new EventQueue();
    let room: Promise<void> | undefined;
    let pushedCount = 0;
    while (room === undefined) {
      pushedCount += 1;
      room = queue.push(phase());
    }
    expect(pushedCount).toBe(EVENTS_WAITING_MAX + 1);
    const reader = queue[Symbol.asyncIterator]();
    let woken = false;
    const waiting = room.then(() => {
      woken = true;
    });
    await reader.next();
    expect(woken).toBe(false);
    for (let read = 0; read < EVENTS_WAITING_MAX / 2; read += 1) {
      await reader.next();
    }
    await waiting;
    expect(woken).toBe(true);
  });

  it("makes the engine wait when too much text waits", () => {
    const queue = new EventQueue();
    expect(queue.push(delta(0, "x".repeat(TEXT_WAITING_MAX)))).toBeUndefined();
    expect(queue.push(delta(TEXT_WAITING_MAX, "y"))).toBeInstanceOf(Promise);
  });

  it("holds no engine that is to stop, and none whose reader is gone", async () => {
    const stopping = new EventQueue();
    const held = stopping.push(delta(0, "x".repeat(TEXT_WAITING_MAX + 1)));
    stopping.release();
    await held;
    expect(stopping.push(delta(TEXT_WAITING_MAX + 1, "more"))).toBeUndefined();
    const left = new EventQueue();
    const waiting = left.push(delta(0, "x".repeat(TEXT_WAITING_MAX + 1)));
    left.abandon();
    await waiting;
    expect(await readAll(left)).toEqual([]);
  });

  it("takes nothing after the result, not even another result", async () => {
    const queue = new EventQueue();
    queue.finish(RESULT);
    expect(queue.push(phase())).toBeUndefined();
    queue.finish({ ...RESULT, answer: "another" });
    expect(await readAll(queue)).toEqual([{ kind: "result", result: RESULT }]);
  });
});
