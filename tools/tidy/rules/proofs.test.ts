import { describe, expect, it } from "vitest";
import { planted, said } from "../planted.ts";
import { checkProofs } from "./proofs.ts";

const TEST = "tests/simulation/ownership.test.ts";
const table = (...status: readonly string[]): string =>
  status.map((one, at) => `| INV-0${at + 1} | A promise with a \\| bar. | 1 skeleton | ${one} |`).join("\n");
const proof = 'proves("INV-01", { title: "t", sabotages: ["fence_removed"], holds });';

function found(invariants: string, test: string, file = TEST): readonly string[] {
  return said(checkProofs(planted({ "docs/invariants.md": invariants, [file]: test })));
}

describe("proofs", () => {
  it("accepts a promise that is done and proven, and one that is owed", () => {
    expect(found(table("done", "owed"), proof)).toEqual([]);
  });

  it("reports a promise that is done and unproven", () => {
    expect(found(table("done", "done"), proof)).toEqual([
      "docs/invariants.md:2 INV-02 is marked done and no test proves it",
    ]);
  });

  it("reports a proof of nothing", () => {
    expect(found(table("owed"), proof.replace("INV-01", "INV-09"))).toEqual([
      `${TEST}:1 proves INV-09, which nobody promised`,
    ]);
  });

  it.each([
    ["without sabotage", 'proves("INV-01", { title: "t", sabotages: [], holds });'],
    ["without the list", 'proves("INV-01", { title: "t", holds });'],
    ["with a computed id", 'proves(`INV-${n}`, { sabotages: ["x"] });'],
  ])("does not count a proof %s", (_, text) => {
    expect(found(table("done"), text)).toHaveLength(2);
  });

  it("does not count a proof outside a test", () => {
    expect(found(table("owed"), proof, "tests/simulation/world.ts")).toEqual([
      "tests/simulation/world.ts:1 a proof stands in a test file",
    ]);
  });

  it("reports gaps in the numbers, unknown states and an empty table", () => {
    expect(found("| INV-02 | p | 1 | maybe |", "")).toEqual([
      "docs/invariants.md:1 INV-02 stands where INV-01 is due",
      "docs/invariants.md:1 the status of INV-02 is owed or done",
    ]);
    expect(found("nothing", "")).toEqual(["docs/invariants.md:0 promises nothing"]);
  });
});
