/** The bars that `npm run bench` knows: each can be asked for by its id, and none is hidden behind another's. */
import { expect, test } from "vitest";
import type { BarResult } from "../../bench/bar.ts";
import { BARS } from "../../bench/registry.ts";
import { toJson, toTable } from "../../bench/report.ts";
import { median, percentile } from "../../bench/statistics.ts";

test("every bar is known by its id, and every case by its bar's", () => {
  expect(BARS.map(({ id }) => id)).toEqual([
    "P-1",
    "P-3",
    "P-4",
    "P-5",
    "P-6",
    "P-7",
    "P-9",
    "P-10",
    "P-11",
    "admission",
    "deliveries",
  ]);
  const cases = BARS.flatMap((bar) => bar.cases);
  expect(new Set(cases).size).toBe(cases.length);
  for (const bar of BARS) {
    expect(bar.cases.filter((id) => id !== bar.id && !id.startsWith(`${bar.id}/`))).toEqual([]);
  }
});

test("a result is one line of the table and one object for machines", () => {
  const result: BarResult = { id: "P-0/x", value: 1.5, unit: "ms", bar: 1, holds: false, n: 3, note: "by half" };
  expect(toTable([result])).toContain("P-0/x  1.5     ms    1       MISSED  3");
  expect(JSON.parse(toJson([result]))).toEqual([result]);
});

test("a percentile is a value that was seen", () => {
  expect(median([3, 1, 2])).toBe(2);
  expect(percentile([1, 2, 3, 4], 0.95)).toBe(4);
  expect(median([])).toBeNaN();
});
