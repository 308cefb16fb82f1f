import { expect, it } from "vitest";
import { preferredWait } from "./prefer.ts";

it.each([
  [undefined, null],
  ["", null],
  ["respond-async", null],
  ["wait=30", 30],
  ['respond-async, WAIT = "5"; x=y', 5],
  [["respond-async", "wait=7"], 7],
  ["wait=7, wait=9", 7],
  ["wait=0", 0],
  ["wait=100000", 60],
  ["wait=soon", null],
  ["wait=-1", null],
  ["wait=1.5", null],
  ["waiting=3", null],
])("Prefer: %j means %j", (header, seconds) => {
  expect(preferredWait(header)).toBe(seconds);
});
