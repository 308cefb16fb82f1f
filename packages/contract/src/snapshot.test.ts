import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { canonicalJson, DEFAULT_RUNTIME, snapshotHashText, type Snapshot } from "./snapshot.ts";

describe("canonicalJson", () => {
  it.each([
    [{ b: 1, a: 2 }, '{"a":2,"b":1}'],
    [{ a: undefined, b: null }, '{"b":null}'],
    [[3, 1, 2], "[3,1,2]"],
    [-0, "0"],
    [1e21, "1e+21"],
    [1e-7, "1e-7"],
    [0.1, "0.1"],
    [10.0, "10"],
    ['"\\\u0008\u000c\n\r\t\u000f/é🚀\u2028', '"\\"\\\\\\b\\f\\n\\r\\t\\u000f/é🚀\u2028"'],
    [Object.assign(Object.create(null) as object, { z: 1 }), '{"z":1}'],
  ])("writes %j", (value, text) => {
    expect(canonicalJson(value)).toBe(text);
  });

  it("sorts keys by UTF-16 units, as RFC 8785 §3.2.3 shows", () => {
    const keys = ["\u20ac", "\r", "\ufb33", "1", "\ud83d\ude00", "\u0080", "\u00f6"];
    const value = Object.fromEntries(keys.map((key) => [key, 0]));
    const sorted = [...canonicalJson(value).matchAll(/"((?:[^"\\]|\\.)*)":/g)].map((match) =>
      JSON.parse(`"${match[1]}"`),
    );
    expect(sorted).toEqual(["\r", "1", "\u0080", "\u00f6", "\u20ac", "\ud83d\ude00", "\ufb33"]);
  });

  it("gives one text for one value, and the value back", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), (value) => {
        const text = canonicalJson(value);
        expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)));
        expect(canonicalJson(shuffled(value))).toBe(text);
        expect(canonicalJson(JSON.parse(text))).toBe(text);
      }),
    );
  });

  it.each([
    ["undefined", undefined],
    ["undefined in an array", [undefined]],
    ["a function", () => 1],
    ["a number that is not one", Number.NaN],
    ["infinity", { deep: [Number.POSITIVE_INFINITY] }],
    ["a big integer", 1n],
    ["a lone surrogate", "\ud83d"],
    ["a lone surrogate in a key", { "\ude80": 1 }],
    ["a date, which would become {}", new Date(0)],
    ["a map, which would become {}", new Map([["a", 1]])],
  ])("refuses %s", (_what, value) => {
    expect(() => canonicalJson(value)).toThrow(TypeError);
  });
});

/** The same value with the members of its objects in another order. */
function shuffled(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(shuffled);
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).reverse();
  const next: Record<string, unknown> = {};
  for (const [key, member] of members) {
    Object.defineProperty(next, key, { value: shuffled(member), enumerable: true });
  }
  return next;
}

const SNAPSHOT: Snapshot = {
  agentId: "agt_0190a0b0c0d07000800000000000000a",
  agentName: "support",
  revision: 1,
  runtime: DEFAULT_RUNTIME,
  instructions: "Help with orders.",
  model: "sim/quote",
  maxOutputTokens: 8192,
  tools: [],
  limits: { modelCallCount: 64, toolCallCount: 256, wallClockMs: 3_600_000 },
};

describe("snapshotHashText", () => {
  it("leaves the default runtime out, so that hashes from before there was a choice stay valid", () => {
    const { runtime: _, ...older } = SNAPSHOT;
    expect(snapshotHashText(SNAPSHOT)).toBe(canonicalJson(older));
    expect(snapshotHashText(SNAPSHOT)).not.toContain("runtime");
  });

  it("names every other runtime", () => {
    expect(JSON.parse(snapshotHashText({ ...SNAPSHOT, runtime: "claude_sdk" }))).toMatchObject({
      runtime: "claude_sdk",
    });
  });

  it("differs when anything else does", () => {
    const texts = [
      SNAPSHOT,
      { ...SNAPSHOT, runtime: "claude_sdk" },
      { ...SNAPSHOT, instructions: "Help with orders" },
      { ...SNAPSHOT, revision: 2 },
      { ...SNAPSHOT, limits: { ...SNAPSHOT.limits, toolCallCount: 255 } },
    ].map(snapshotHashText);
    expect(new Set(texts).size).toBe(texts.length);
  });

  it("still hashes a snapshot of release 0.1.0 as that release did", () => {
    expect(createHash("sha256").update(snapshotHashText(SNAPSHOT)).digest("hex")).toBe(
      "c0350167a37a0d272623d719a943cd6cdcc14f0b8e5e1ea7a424acc22e0e0cdf",
    );
  });
});
