import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { countTokens, splitTokens } from "./tokens.ts";

describe("the token estimate", () => {
  test("a token is up to twelve code points and the white space behind them", () => {
    expect(splitTokens("A lease  ends.\nextraordinarily")).toEqual(["A ", "lease  ", "ends.\n", "extraordinar", "ily"]);
    expect(splitTokens("👋".repeat(13))).toEqual(["👋".repeat(12), "👋"]);
    expect(countTokens("")).toBe(0);
  });

  test("pieces make the text again and are as many as counted, for any text", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string({ unit: "binary" }), fc.string({ unit: "grapheme" }), fc.string()), (text) => {
        const pieces = splitTokens(text);
        expect(pieces.join("")).toBe(text);
        expect(countTokens(text)).toBe(pieces.length);
      }),
    );
  });
});
