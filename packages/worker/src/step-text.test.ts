import { describe, expect, it } from "vitest";
import type { StepEvent } from "./executor.ts";
import { assertFits, StepText, TEXT_BYTES_MAX } from "./step-text.ts";

function delta(offset: number, text: string, itemId = "itm_1"): StepEvent {
  return { type: "text.delta", itemId, offset, text };
}

describe("step text", () => {
  it("replaces NUL and lone surrogates at their place", () => {
    const text = new StepText();
    expect(text.accept(delta(0, "a\u0000b\udc00c"))).toEqual(delta(0, "a\ufffdb\ufffdc"));
    expect(text.partialAnswer).toBe("a\ufffdb\ufffdc");
  });

  it("keeps a pair together that comes in two deltas, each item by itself", () => {
    const text = new StepText();
    expect(text.accept(delta(0, "x\ud83d"))).toEqual(delta(0, "x"));
    expect(text.accept(delta(0, "\ud83d", "itm_2"))).toBeNull();
    expect(text.accept(delta(2, "\ude80!"))).toEqual(delta(1, "🚀!"));
    expect(text.accept(delta(1, "z", "itm_2"))).toEqual(delta(0, "\ufffdz", "itm_2"));
  });

  it("answers a cut step with the text of the last item, without what was taken back", () => {
    const text = new StepText();
    text.accept(delta(0, "first"));
    text.accept({ type: "text.completed", itemId: "itm_1", text: "first" });
    text.accept(delta(0, "sec", "itm_2"));
    text.accept(delta(3, "ond", "itm_2"));
    expect(text.partialAnswer).toBe("second");
    text.accept({ type: "text.retracted", itemId: "itm_2", cause: "provider_overloaded" });
    expect(text.partialAnswer).toBe("");
  });

  it("does not take thinking for an answer", () => {
    const text = new StepText();
    text.accept({ type: "thinking.delta", itemId: "itm_1", offset: 0, text: "hm" });
    expect(text.partialAnswer).toBe("");
  });

  it("refuses text by its bytes and says how many there were", () => {
    const fits = "é".repeat(TEXT_BYTES_MAX / 2);
    expect(() => assertFits(fits, "The answer")).not.toThrow();
    expect(() => assertFits(`${fits}é`, "The answer")).toThrow(`The answer has ${TEXT_BYTES_MAX + 2} bytes`);
  });
});
