import { clip, wellFormed, wellFormedJson } from "@signalbox/contract";
import { createPendingRows } from "@signalbox/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";

/** Any UTF-16 units at all: lone halves, NUL, pairs. */
const anyUnits = fc
  .array(fc.oneof(fc.integer({ min: 0, max: 0xffff }), fc.constantFrom(0, 0xd83d, 0xde00, 0x41)), { maxLength: 40 })
  .map((units) => String.fromCharCode(...units));

describe("wellFormed", () => {
  it("keeps the length, replaces only what nobody can store, and changes nothing twice", () => {
    fc.assert(
      fc.property(anyUnits, (text) => {
        const clean = wellFormed(text);
        expect(clean.isWellFormed()).toBe(true);
        expect(clean).not.toContain("\u0000");
        expect(clean).toHaveLength(text.length);
        expect(wellFormed(clean)).toBe(clean);
        if (text.isWellFormed() && !text.includes("\u0000")) expect(clean).toBe(text);
      }),
      { numRuns: 1_000 },
    );
  });

  it("leaves the six characters that spell a NUL alone", () => {
    expect(wellFormed("\\u0000")).toBe("\\u0000");
    expect(wellFormed("a\u0000b")).toBe("a\uFFFDb");
  });

  it("reaches every string and key of a value, and keeps the value when there is nothing to do", () => {
    const value = fc.object({ key: anyUnits, values: [anyUnits, fc.integer(), fc.constant(null)], maxDepth: 3 });
    fc.assert(
      fc.property(value, (given) => {
        const clean = wellFormedJson(given);
        expect(JSON.stringify(clean)).not.toMatch(/\\ud[89ab]|\\u0000/);
        expect(wellFormedJson(clean)).toBe(clean);
      }),
      { numRuns: 300 },
    );
  });
});

describe("clip", () => {
  it("never exceeds its limit, never cuts a pair, and says that it cut", () => {
    fc.assert(
      fc.property(anyUnits, fc.integer({ min: 1, max: 50 }), (text, limit) => {
        const clipped = clip(text, limit);
        expect(clipped.length).toBeLessThanOrEqual(limit);
        if (text.length <= limit) expect(clipped).toBe(text);
        else {
          expect(clipped.endsWith("…")).toBe(true);
          expect(text.startsWith(clipped.slice(0, -1))).toBe(true);
          if (text.isWellFormed()) expect(clipped.isWellFormed()).toBe(true);
        }
      }),
      { numRuns: 1_000 },
    );
  });
});

it("a part of any text is kept as it was said", () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ minLength: 1, maxLength: 8, unit: "grapheme" }), { minLength: 1, maxLength: 20 }),
      (chunks) => {
        const rows = createPendingRows();
        let text = "";
        for (const [index, chunk] of chunks.entries()) {
          rows.part({ type: "text.delta", itemId: "itm_1", revision: index + 1, offset: text.length, text: chunk });
          text += chunk;
        }
        expect(rows.chars).toBe(text.length);
        expect(rows.take(1)).toEqual([
          { type: "text.delta", itemId: "itm_1", revision: chunks.length, data: { offset: 0, text } },
        ]);
      },
    ),
  );
});
