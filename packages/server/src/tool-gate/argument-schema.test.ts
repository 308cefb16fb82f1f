import { describe, expect, it } from "vitest";
import { argumentSentence, ArgumentSchemas } from "./argument-schema.ts";
import type { Json } from "./mcp-protocol.ts";

/** Names a schema to the compiler of one test. */
let hashes = 0;

function problems(schema: Json, value: unknown) {
  hashes += 1;
  return new ArgumentSchemas().check({ definitionHash: String(hashes), schema }, value);
}

describe("arguments", () => {
  const transfer = {
    type: "object",
    properties: { to: { type: "string" }, amount: { type: "integer", exclusiveMinimum: 0 } },
    required: ["to", "amount"],
    additionalProperties: false,
  };

  it("that fit have no problems", () => {
    expect(problems(transfer, { to: "A", amount: 10 })).toEqual([]);
  });

  it("that do not fit are told where, each of them once", () => {
    const found = problems(transfer, { amount: 0, memo: "x" });
    expect(found).toEqual(
      expect.arrayContaining([
        { pointer: "", detail: "must have required property 'to'" },
        { pointer: "", detail: "must NOT have additional properties (memo)" },
        { pointer: "/amount", detail: "must be > 0" },
      ]),
    );
    expect(argumentSentence(found)).toMatch(/\/amount: must be > 0/);
  });

  it.each<{ readonly by: string; readonly schema: Json; readonly right: Json; readonly wrong: Json }>([
    {
      by: "one of two at the root",
      schema: { anyOf: [{ required: ["a"] }, { required: ["b"] }] },
      right: { a: 1 },
      wrong: {},
    },
    {
      by: "a reference to a definition",
      schema: { properties: { n: { $ref: "#/$defs/N" } }, $defs: { N: { type: "string" } } },
      right: { n: "x" },
      wrong: { n: 1 },
    },
    {
      by: "a reference by path",
      schema: { properties: { a: { type: "string" }, b: { $ref: "#/properties/a" } } },
      right: { b: "x" },
      wrong: { b: 1 },
    },
    {
      by: "a tuple of an older draft",
      schema: {
        $schema: "http://json-schema.org/draft-07/schema#",
        properties: { p: { items: [{ type: "string" }] } },
      },
      right: { p: ["x"] },
      wrong: { p: [1] },
    },
    {
      by: "the dialect of today",
      schema: { $schema: "https://json-schema.org/draft/2020-12/schema", required: ["x"] },
      right: { x: 1 },
      wrong: {},
    },
    {
      by: "a name that objects have anyway",
      schema: { required: ["constructor"] },
      right: { constructor: 1 },
      wrong: {},
    },
  ])("are judged by $by", ({ schema, right, wrong }) => {
    expect(problems(schema, right)).toEqual([]);
    expect(problems(schema, wrong)).not.toEqual([]);
  });

  it("of a recursive schema are judged to their depth, and none overflows the stack", () => {
    const schema = {
      $ref: "#/$defs/N",
      $defs: { N: { properties: { kid: { $ref: "#/$defs/N" }, v: { type: "string" } } } },
    };
    expect(problems(schema, { kid: { kid: { v: "x" } } })).toEqual([]);
    expect(problems(schema, { kid: { kid: { v: 1 } } })).toMatchObject([{ pointer: "/kid/kid/v" }]);
    let deep: Json = {};
    for (let level = 0; level < 200_000; level += 1) deep = { kid: deep };
    expect(problems(schema, deep)).toHaveLength(1);
  });

  it("are refused when a pattern of the schema would never come to an end", () => {
    const found = problems({ properties: { x: { pattern: "^(a+)+$" } } }, { x: `${"a".repeat(40)}!` });
    expect(found).toMatchObject([{ detail: expect.stringContaining("takes too long") }]);
  });

  it("have a bounded number of problems", () => {
    const value = Object.fromEntries(Array.from({ length: 50 }, (_, place) => [`p${place}`, 1]));
    const found = problems({ additionalProperties: { type: "string" } }, value);
    expect(found).toHaveLength(11);
    expect(found.at(-1)).toEqual({ pointer: "", detail: "and 40 more" });
  });
});

describe("a schema that cannot be used", () => {
  let deep: Json = { type: "object" };
  for (let level = 0; level < 80; level += 1) deep = { properties: { x: deep } };
  const wide = { properties: Object.fromEntries(Array.from({ length: 25_000 }, (_, place) => [`p${place}`, {}])) };

  it.each([
    [
      "refers to another server",
      { properties: { x: { $ref: "https://evil.test/schema.json" } } },
      "nothing is fetched",
    ],
    ["refers to nothing", { properties: { x: { $ref: "#/$defs/Gone" } } }, "can't resolve reference"],
    ["is nested too deeply", deep, "nested deeper"],
    ["has too many parts", wide, "more than"],
    ["is too long", { description: "x".repeat(70_000) }, "longer than"],
    ["is none", { type: "objekt" }, ""],
    ["has a pattern that is none", { properties: { x: { pattern: "(" } } }, ""],
  ])("because it %s says so, and lets nothing through", (_what, schema, sentence) => {
    const schemas = new ArgumentSchemas();
    const checked = { definitionHash: "h", schema };
    expect(schemas.unusable(checked)).toContain(sentence);
    expect(schemas.check(checked, {})).toMatchObject([{ pointer: "" }]);
  });
});

it("compiles a schema once for all calls", () => {
  const schemas = new ArgumentSchemas();
  const schema = { required: ["a"] };
  expect(schemas.check({ definitionHash: "same", schema }, {})).toHaveLength(1);
  // The hash names the schema: what stands under it is not looked at again.
  expect(schemas.check({ definitionHash: "same", schema: {} }, {})).toHaveLength(1);
});
