import { PlatformError } from "@signalbox/contract";
import { describe, expect, test } from "vitest";
import { readScriptForm } from "./script-form.ts";

describe("a script as JSON", () => {
  test("every form there is", () => {
    const script = [
      {
        parts: [
          { text: "a", tokenDelayMs: 5, break: "cut", breakAfterTokens: 1 },
          { waitMs: 3 },
          { break: { error: { type: "x", message: "y" } } },
        ],
      },
      {
        parts: [
          { tokens: 4, timestamps: true },
          { thinking: "b", signature: "c" },
        ],
        stop: "refusal",
        usage: { inputTokens: 1 },
        model: "m",
      },
      { parts: [{ tool: "t", input: {}, id: "i", cutJsonAt: 2 }], firstTokenDelayMs: 1, tokenDelayMs: 2 },
      { status: 429, headers: { "retry-after": "1" }, error: { message: "z" }, waitMs: 5 },
      { raw: { chunks: [{ utf8: "x" }] } },
      { noAnswer: "hang" },
      { extractive: true },
    ];
    expect(readScriptForm(script).script).toEqual(script);
    const named = { scripts: { a: script, b: { answers: script, by: "request" } } };
    expect(readScriptForm(named)).toEqual({
      script: null,
      scripts: { a: { answers: script }, b: { answers: script, by: "request" } },
    });
  });

  test.each([
    ["no list", { script: {} }],
    ["an empty list", []],
    ["a field nobody knows", [{ parts: [{ text: "a", delay: 5 }] }]],
    ["a part of no form", [{ parts: [{ say: "a" }] }]],
    ["an answer of no form", [{}]],
    ["a duration that is none", [{ parts: [{ text: "a", tokenDelayMs: -1 }] }]],
    ["a break nobody knows", [{ parts: [{ break: "soon" }] }]],
    ["text that is none", [{ parts: [{ text: 7 }] }]],
    ["a way to move on nobody knows", { scripts: { a: { answers: [{ extractive: true }], by: "day" } } }],
    ["a field of the prototype", [{ parts: [{ text: "a", constructor: "x" }] }]],
  ])("refuses %s", (_, value) => {
    expect(() => readScriptForm(value)).toThrow(PlatformError);
  });
});
