import { PlatformError } from "@signalbox/contract";
import { describe, expect, it } from "vitest";
import { namingMissing } from "./missing.ts";

const ID = "0".repeat(32);
const told = (params: unknown, detail?: string) => namingMissing(new PlatformError("not_found", detail), params).detail;

describe("what is not found", () => {
  it("is named as the address names it", () => {
    expect(told({ agent: "nobody" })).toBe('There is no agent "nobody".');
    expect(told({ run: `run_${ID}` })).toBe(`There is no run "run_${ID}".`);
    expect(told({ webhook: `whk_${ID}`, delivery: `dlv_${ID}` })).toBe(
      `There is no delivery "dlv_${ID}" of webhook "whk_${ID}".`,
    );
  });

  it("says what an id looks like where there was none", () => {
    expect(told({ run: "foo" })).toBe(
      'There is no run "foo". The id of a run begins with run_ and has 32 digits after it.',
    );
    expect(told({ approval: "foo" })).toContain("begins with hld_");
  });

  it("keeps a sentence of its own, other codes, and an address that names nothing", () => {
    expect(told({ run: "foo" }, "There is no such agent.")).toBe("There is no such agent.");
    expect(told({})).toBe("There is no such thing.");
    expect(told(undefined)).toBe("There is no such thing.");
    const other = new PlatformError("hold_closed");
    expect(namingMissing(other, { hold: "foo" })).toBe(other);
  });

  it("is bounded", () => {
    expect(told({ agent: "x".repeat(500) }).length).toBeLessThan(120);
  });
});
