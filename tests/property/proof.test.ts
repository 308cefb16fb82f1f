import { describe, expect, it } from "vitest";
import { mustBreak } from "../setup/proves.ts";

describe("a proof", () => {
  it("counts an assertion, an error that names the promise, and one that was caused by either", async () => {
    await mustBreak("INV-01", () => expect(2).toBe(1));
    await mustBreak("INV-01", () => Promise.reject(new Error("INV-01: two runs are active")));
    await mustBreak("INV-01", () => {
      throw new Error("seed 7", { cause: new Error("INV-01: two runs are active") });
    });
  });

  it("does not count a check that noticed nothing", async () => {
    await expect(mustBreak("INV-01", () => undefined)).rejects.toThrow("did not notice the sabotage");
  });

  it("does not count an error that has nothing to do with the promise", async () => {
    const broken = mustBreak("INV-01", () => {
      throw new TypeError("x is not a function");
    });
    await expect(broken).rejects.toThrow("no broken promise");
    const another = mustBreak("INV-01", () => Promise.reject(new Error("INV-02: lost")));
    await expect(another).rejects.toThrow("no broken promise");
  });
});
