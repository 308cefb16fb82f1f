import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { clip, wellFormed, wellFormedJson } from "./text.ts";

/** Strings with NUL, halves of pairs and whole pairs in every neighbourhood. */
const wild = fc
  .array(fc.constantFrom("a", "\u0000", "\\u0000", "\ud83d", "\ude80", "🚀", "é", "\u2028", "\ufeff", "👩‍👩‍👧"), {
    maxLength: 12,
  })
  .map((parts) => parts.join(""));

describe("wellFormed", () => {
  it("leaves nothing that a database or a provider refuses", () => {
    fc.assert(
      fc.property(wild, (text) => {
        const clean = wellFormed(text);
        expect(clean.isWellFormed()).toBe(true);
        expect(clean).not.toContain("\u0000");
        expect(clean.length).toBe(text.length);
        expect(wellFormed(clean)).toBe(clean);
      }),
    );
  });

  it.each([
    ["half of a pair at the end", "ok \ud83d", "ok \ufffd"],
    ["a pair the wrong way round", "\ude80\ud83d", "\ufffd\ufffd"],
    ["half of a pair within a word", "\ud604\ud99c", "\ud604\ufffd"],
    ["NUL", "a\u0000b", "a\ufffdb"],
  ])("replaces %s visibly", (_what, text, clean) => {
    expect(wellFormed(text)).toBe(clean);
  });

  it.each(["a\\u0000b", "🚀", "👩‍👩‍👧", "\ufeffx", "a\u2028b\u2029c", "é", "e\u0301", "\u0085x", "\uffff", "a\u202eb"])(
    "leaves %j as it is",
    (text) => {
      expect(wellFormed(text)).toBe(text);
    },
  );
});

describe("wellFormedJson", () => {
  it("gives back the very same value when there is nothing to mend", () => {
    const value = { a: [1, null, true, "x", { b: "a\\u0000b" }] };
    expect(wellFormedJson(value)).toBe(value);
  });

  it("mends strings and keys at every depth, and nothing else", () => {
    const value = { ok: 1, deep: [{ ["k\u0000"]: "v\ud83d" }], list: ["\u0000", 2, null] };
    expect(wellFormedJson(value)).toEqual({ ok: 1, deep: [{ ["k\ufffd"]: "v\ufffd" }], list: ["\ufffd", 2, null] });
    expect(value.list[0]).toBe("\u0000");
  });

  it("keeps a key named __proto__ a key", () => {
    const value: unknown = JSON.parse('{"__proto__": {"admin": true}, "text": "\\u0000"}');
    const clean = wellFormedJson(value) as Record<string, unknown>;
    expect(Object.keys(clean)).toEqual(["__proto__", "text"]);
    expect(Object.getPrototypeOf(clean)).toBe(Object.prototype);
    expect("admin" in clean).toBe(false);
  });

  it("never changes what JSON can carry well-formed", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
        const text = JSON.stringify(value);
        fc.pre(!text.includes("\\u0000") && !/\\ud[89a-f]/.test(text));
        expect(wellFormedJson(value)).toBe(value);
      }),
    );
  });
});

describe("clip", () => {
  it("keeps within its limit and never cuts a pair", () => {
    fc.assert(
      fc.property(wild, fc.integer({ min: 0, max: 40 }), (text, limit) => {
        const whole = wellFormed(text);
        const clipped = clip(whole, limit);
        expect(clipped.length).toBeLessThanOrEqual(Math.max(limit, 0));
        expect(clipped.isWellFormed()).toBe(true);
        if (whole.length > limit && limit > 0) {
          expect(clipped.endsWith("…")).toBe(true);
          expect(whole.startsWith(clipped.slice(0, -1))).toBe(true);
        }
      }),
    );
  });

  it.each([
    ["ab🚀cd", 6, "ab🚀cd"],
    ["ab🚀cd", 5, "ab🚀…"],
    ["ab🚀cd", 4, "ab…"],
    ["ab🚀cd", 3, "ab…"],
    ["🚀🚀", 2, "…"],
    ["🚀🚀", 1, "…"],
    ["abc", 0, ""],
  ])("cuts %j at %i", (text, limit, clipped) => {
    expect(clip(text, limit)).toBe(clipped);
  });
});
