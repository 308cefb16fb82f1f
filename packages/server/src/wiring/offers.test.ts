import type { RuntimeInfo } from "@signalbox/contract";
import { expect, it } from "vitest";
import { mergeRuntimes } from "./offers.ts";

const runtime = (facts: Partial<RuntimeInfo>): RuntimeInfo => ({
  name: "langgraph",
  version: "1",
  available: true,
  problem: null,
  capabilities: [],
  workers: 1,
  room: 2,
  ...facts,
});

it("adds up room and workers, and lets an available runtime speak for all", () => {
  const broken = runtime({ version: "0", available: false, problem: "not installed", room: 0 });
  const other = runtime({ name: "claude_sdk" });
  expect(mergeRuntimes([[broken], [runtime({}), other], [runtime({ room: 3 })]])).toEqual([
    other,
    runtime({ workers: 3, room: 5 }),
  ]);
  expect(mergeRuntimes([[broken], [broken]])).toEqual([{ ...broken, workers: 2 }]);
  expect(mergeRuntimes([])).toEqual([]);
});
