import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { canonicalJson } from "@signalbox/contract";
import { auditBytes, type AuditEntry } from "@signalbox/core";
import fc from "fast-check";
import { describe, expect, it } from "vitest";

interface Vector {
  readonly about: string;
  readonly json: string;
  readonly canonical: string;
  readonly sha256: string;
}

// The file is ours and has this shape.
const VECTORS = JSON.parse(
  readFileSync(new URL("fixtures/canonical-vectors.json", import.meta.url), "utf8"),
) as readonly Vector[];

const anyJson = fc.jsonValue({ maxDepth: 4, stringUnit: "binary" });
const wellFormedJson = anyJson.filter(
  (value) => JSON.stringify(value).isWellFormed() && !/\\ud[89a-f]/.test(JSON.stringify(value)),
);

describe("canonical JSON", () => {
  it.each(VECTORS)("$about", ({ json, canonical, sha256 }) => {
    const bytes = canonicalJson(JSON.parse(json));
    expect(bytes).toBe(canonical);
    expect(createHash("sha256").update(bytes, "utf8").digest("hex")).toBe(sha256);
  });

  it("means the same and is the same however its keys were ordered", () => {
    fc.assert(
      fc.property(wellFormedJson, (value) => {
        const once = canonicalJson(value);
        expect(JSON.parse(once)).toEqual(JSON.parse(JSON.stringify(value)));
        expect(canonicalJson(turned(value))).toBe(once);
        expect(canonicalJson(JSON.parse(once))).toBe(once);
      }),
      { numRuns: 300 },
    );
  });

  it("refuses what JSON cannot say, wherever it stands", () => {
    const unsayable = fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, "\ud800", "a\udc00b", () => 1, 10n, [
      undefined,
    ]);
    fc.assert(
      fc.property(unsayable, fc.array(fc.constantFrom("list", "object"), { maxLength: 4 }), (value, path) => {
        const nested = path.reduce<unknown>(
          (inner, kind) => (kind === "list" ? [1, inner] : { a: 1, b: inner }),
          value,
        );
        expect(() => canonicalJson(nested)).toThrow(TypeError);
      }),
    );
    expect(() => canonicalJson({ "\ud800": 1 })).toThrow(TypeError);
    expect(canonicalJson({ left: undefined, kept: null })).toBe('{"kept":null}');
  });
});

describe("audit bytes", () => {
  it("are the UTF-8 of the canonical entry, and change with any part of it", () => {
    const entryOf = (facts: object): AuditEntry => ({
      action: "message_received",
      tenantId: "default",
      actor: { keyId: "key_1", user: null, roles: [], units: [] },
      conversationId: "cnv_1",
      runId: "run_1",
      generation: 3,
      facts: { ...facts },
    });
    fc.assert(
      fc.property(wellFormedJson, (value) => {
        const entry = entryOf({ value });
        expect(
          Buffer.from(auditBytes(entry)).equals(Buffer.from(canonicalJson({ version: 1, ...entry }), "utf8")),
        ).toBe(true);
      }),
      { numRuns: 300 },
    );
    const plain = entryOf({ a: 1 });
    const others = [{ ...plain, generation: 4 }, { ...plain, action: "run_admitted" as const }, entryOf({ a: 2 })];
    for (const other of others) expect(auditBytes(other)).not.toEqual(auditBytes(plain));
  });
});

/** The same value with the keys of every object in another order. */
function turned(value: unknown): unknown {
  if (Array.isArray(value)) return value.map((each) => turned(each));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([key, member]) => [key, turned(member)]),
  );
}
