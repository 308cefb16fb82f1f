import { createHash } from "node:crypto";
import { describe, expect, it } from "vitest";
import { postKey, type KeyedPost } from "./idempotency.ts";

const digest = { sha256Hex: (text: string) => createHash("sha256").update(text).digest("hex") };

function keyOf(post: Partial<KeyedPost>) {
  return postKey({
    header: "k1",
    route: "createAgent",
    body: { a: 1, b: [2] },
    scope: { tenantId: "t1", user: null },
    digest,
    ...post,
  });
}

describe("an idempotency key", () => {
  it("is none without a header", () => {
    expect(keyOf({ header: undefined })).toBeNull();
  });

  it.each(["k", "a".repeat(255), "!~", "0190a0b0-c0d0-7000-8000-00000000000a"])("may be %j", (header) => {
    expect(keyOf({ header })).toMatchObject({ key: header, route: "createAgent" });
  });

  it.each(["", "a".repeat(256), "a b", "a\tb", "é", "a\u0000", ["k1", "k2"]])("may not be %j", (header) => {
    expect(() => keyOf({ header })).toThrow(/printable ASCII/);
  });

  it("stands for one body, in whatever order its members come", () => {
    expect(keyOf({ body: { b: [2], a: 1 } })).toEqual(keyOf({}));
    for (const body of [{ a: 1, b: [3] }, { a: 1 }, { a: "1", b: [2] }, null]) {
      expect(keyOf({ body })?.bodyHash).not.toBe(keyOf({})?.bodyHash);
    }
  });

  it("is one of its end user, so that no other gets the answer", () => {
    const mine = keyOf({ scope: { tenantId: "t1", user: "u1" } });
    const yours = keyOf({ scope: { tenantId: "t1", user: "u2" } });
    const ours = keyOf({});
    expect(new Set([mine?.key, yours?.key, ours?.key]).size).toBe(3);
    expect(keyOf({ scope: { tenantId: "t1", user: "u1" } })).toEqual(mine);
    expect(keyOf({ header: "k2", scope: { tenantId: "t1", user: "u1" } })?.key).not.toBe(mine?.key);
  });
});
