import { expect, test } from "vitest";
import type { StepEvent } from "@signalbox/worker";
import { Turn } from "./turn.ts";

const PHASES = [
  { type: "run.phase", phase: "thinking" },
  { type: "run.phase", phase: "writing" },
] as const satisfies readonly StepEvent[];

test("events are handed out one after the other, no faster than they are taken", async () => {
  const { promise: taken, resolve: take } = Promise.withResolvers<void>();
  const heard: StepEvent[] = [];
  const turn = new Turn({
    newItemId: () => "itm_1",
    emit: async (event) => {
      heard.push(event);
      await taken;
    },
  });
  const handing = turn.emitAll(PHASES);
  expect(heard).toEqual([PHASES[0]]);
  take();
  await handing;
  expect(heard).toEqual(PHASES);
});

test("a reader that fails stops the turn and hears no more", async () => {
  let count = 0;
  const turn = new Turn({
    newItemId: () => "itm_1",
    emit: () => {
      count += 1;
      throw new Error("gone");
    },
  });
  await turn.emitAll(PHASES);
  await turn.emitAll(PHASES);
  expect(count).toBe(1);
  expect(turn.stop).toMatchObject({ kind: "failure", failure: { code: "internal" } });
});

test("the first reason to stop stays", () => {
  const turn = new Turn({ newItemId: () => "itm_1", emit: () => undefined });
  turn.stopFor({ kind: "truncated" });
  turn.fail({ code: "engine_failed", detail: "later" });
  expect(turn.stop).toEqual({ kind: "truncated" });
});
