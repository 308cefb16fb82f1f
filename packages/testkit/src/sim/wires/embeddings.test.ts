import { describe, expect, test } from "vitest";
import { embed } from "./embeddings.ts";
import { objectsOf } from "../json.ts";
import { WireError } from "../wire-error.ts";

function vectors(input: unknown, fields: Record<string, unknown> = {}, seed = 1): readonly (readonly number[])[] {
  const { data } = embed({ model: "sim", input, ...fields }, seed);
  return objectsOf(data).map((each) => each.embedding as readonly number[]);
}

function nearness(one: readonly number[], other: readonly number[]): number {
  return one.reduce((sum, value, place) => sum + value * (other[place] ?? 0), 0);
}

describe("embeddings", () => {
  test("the same text has the same vector, another seed another one", () => {
    expect(vectors("a lease ends")).toEqual(vectors("a lease ends"));
    expect(vectors("a lease ends", {}, 2)).not.toEqual(vectors("a lease ends"));
  });

  test("texts that share words are nearer than texts that do not, and all have length one", () => {
    const [lease, leases, money] = vectors([
      "the lease of a process ends",
      "leases end with their process",
      "money is counted",
    ]);
    expect(nearness(lease!, leases!)).toBeGreaterThan(nearness(lease!, money!) + 0.3);
    for (const vector of [lease!, leases!, money!]) {
      expect(nearness(vector, vector)).toBeCloseTo(1, 5);
    }
  });

  test("base64 holds the same numbers", () => {
    const [numbers] = vectors("hello", { dimensions: 16 });
    const text = objectsOf(
      embed({ model: "sim", input: "hello", dimensions: 16, encoding_format: "base64" }, 1).data,
    )[0]?.embedding;
    const bytes = Buffer.from(String(text), "base64");
    expect(bytes.byteLength).toBe(64);
    expect(Array.from({ length: 16 }, (_, place) => bytes.readFloatLE(place * 4))).toEqual(numbers);
  });

  test("any text at all", () => {
    for (const vector of vectors(["👩‍👩‍👧", "日本語", "...", "\ud83d", [1, 2, 3]])) {
      expect(nearness(vector, vector)).toBeCloseTo(1, 5);
    }
  });

  test.each([
    { input: "" },
    { input: [""] },
    { input: 7 },
    { dimensions: 0 },
    { dimensions: 5_000 },
    { encoding_format: "int8" },
  ])("refuses %j", (fields) => {
    expect(() => embed({ model: "sim", input: "x", ...fields }, 1)).toThrow(WireError);
  });
});
