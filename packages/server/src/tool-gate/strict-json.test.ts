import { describe, expect, it } from "vitest";
import { ambiguityIn } from "./strict-json.ts";

describe("JSON that can be read in one way only", () => {
  it.each([
    ["{}"],
    ['{"a":1,"b":{"a":2},"c":[{"a":3},{"a":4}]}'],
    ['{"a":"a","b":"\\"a\\":1"}'],
    ['{"a" : ["a","a","a"]}'],
    ['{"a\\\\":1,"a":2}'],
    [`${"[".repeat(64)}${"]".repeat(64)}`],
  ])("is taken: %s", (text) => {
    JSON.parse(text);
    expect(ambiguityIn(text)).toBeNull();
  });

  it.each([
    ['{"a":1,"a":2}'],
    ['{"x":[{"method":"tools/list","params":{},"method":"tools/call"}]}'],
    ['{"a":1,"\\u0061":2}'],
    ['{"a":{"b":1},"a" :2}'],
  ])("is not: %s", (text) => {
    JSON.parse(text);
    expect(ambiguityIn(text)).toMatch(/same key twice/);
  });

  it("is nested at most 64 deep", () => {
    expect(ambiguityIn(`${"[".repeat(65)}${"]".repeat(65)}`)).toMatch(/64/);
    expect(ambiguityIn(`${'{"a":'.repeat(65)}1${"}".repeat(65)}`)).toMatch(/64/);
  });
});
