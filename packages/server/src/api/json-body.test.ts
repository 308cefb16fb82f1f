import { PlatformError } from "@signalbox/contract";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { checkBodyHeaders, parseJsonBody } from "./json-body.ts";

function parse(text: string): unknown {
  return parseJsonBody(new TextEncoder().encode(text));
}

function failure(work: () => unknown): PlatformError {
  try {
    work();
  } catch (thrown) {
    expect(thrown).toBeInstanceOf(PlatformError);
    return thrown as PlatformError;
  }
  return expect.unreachable("it should have failed");
}

describe("a body", () => {
  it("is the JSON it is", () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 10 }), (value) => {
        const text = JSON.stringify(value);
        fc.pre(!text.includes("\\u0000") && !text.includes("__proto__") && !/\\ud[89a-f]/.test(text));
        expect(parse(text)).toEqual(JSON.parse(text));
      }),
    );
  });

  it("never brings NUL or half a character", () => {
    expect(parse('{"a\\u0000":["\\ud83d","ok \\ud83d\\ude80","\\\\u0000"]}')).toEqual({
      "a\ufffd": ["\ufffd", "ok 🚀", "\\u0000"],
    });
  });

  it.each([
    ["ff", "a byte that UTF-8 does not have"],
    ["22c08022", "NUL in two bytes"],
    ["22eda0bd22", "half a pair in three bytes"],
    ["22f09f9a", "a character cut off"],
    ["22f888808080a022", "a character of five bytes"],
  ])("is refused for %s, %s", (hex) => {
    expect(failure(() => parseJsonBody(Buffer.from(hex, "hex"))).code).toBe("invalid_encoding");
  });

  it.each(["", " ", "{", "{}}", "[1,]", "NaN", "undefined", "{'a':1}", '{"a":01}', '"\u0001"'])(
    "is refused as %j",
    (text) => {
      expect(failure(() => parse(text)).code).toBe("malformed_json");
    },
  );

  it("says why in words that are themselves well-formed and short", () => {
    for (const text of [`{"a": ${"🚀".repeat(100)}`, `[${"é".repeat(7)}🚀🚀🚀🚀🚀]`, `{"a": ${"x".repeat(10_000)}`]) {
      const { detail } = failure(() => parse(text));
      expect(detail.isWellFormed()).toBe(true);
      expect(detail.length).toBeLessThan(260);
    }
  });

  it("may be nested 64 levels deep and no deeper", () => {
    const nested = (depth: number) => `${'[{"a":'.repeat(depth / 2)}1${"}]".repeat(depth / 2)}`;
    expect(parse(nested(64))).toBeDefined();
    expect(failure(() => parse(nested(66))).code).toBe("invalid_request");
    const brackets = `{"a": ${JSON.stringify("[{".repeat(500))}, "b": "\\"${"[".repeat(100)}"}`;
    expect(parse(brackets)).toHaveProperty("b", `"${"[".repeat(100)}`);
  });

  it("of a million brackets is refused at once", () => {
    expect(failure(() => parse("[".repeat(500_000) + "]".repeat(500_000))).code).toBe("invalid_request");
  });

  it.each([
    ['{"a":1,"a":1}', "/a"],
    ['{"a":1,"\\u0061":2}', "/a"],
    ['[0,{"b/c":{"x":[],"y":{},"x":"}"}}]', "/1/b~1c/x"],
    ['{"a":{"deep":1},"a":{"deep":1}, "\\"":":"}', "/a"],
    ['{"\\u0000":1,"\\ufffd":2}', "/\ufffd"],
    ['{ "n" : [ 9007199254740993 ] }', "/n/0"],
    ['{"n":-12345678901234567890}', "/n"],
    ['{"n":9007199254740993.0}', "/n"],
    ['{"n":1e400}', "/n"],
    ["9007199254740993", ""],
  ])("that would be read as something else is refused where it stands: %s", (text, pointer) => {
    const error = failure(() => parse(text));
    expect([error.code, error.fields.map((each) => each.pointer)]).toEqual(["invalid_request", [pointer]]);
  });

  it.each([
    '{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}',
    '{"a":"9007199254740993 and 1e400, {\\"a\\":1,\\"a\\":2}"}',
    "[9007199254740991,-9007199254740991,9007199254740992,1e20,100000000000000000000,0.12345678901234567890,1E-400,-0]",
    `{"long":"${'x\\"'.repeat(100_000)}","e":1e2}`,
  ])("is read where nothing of it is lost: %.60s", (text) => {
    expect(parse(text)).toEqual(JSON.parse(text));
  });

  it("with many faults tells some of them", () => {
    const error = failure(() => parse(`[${"1e999,".repeat(1_000)}1]`));
    expect(error.fields).toHaveLength(16);
  });

  it("with a key named __proto__ is refused where it stands, and others like it are ordinary", () => {
    const error = failure(() => parse('{"a/b":[{"__proto__":{"admin":true}}]}'));
    expect(error.code).toBe("field_unknown");
    expect(error.fields[0]?.pointer).toBe("/a~1b/0/__proto__");
    expect(parse('{"constructor":1,"toString":2}')).toEqual({ constructor: 1, toString: 2 });
  });
});

describe("its headers", () => {
  it.each([
    [{}],
    [{ "content-type": "application/json" }],
    [{ "content-type": "application/json; charset=UTF-8" }],
    [{ "content-type": 'application/json;charset="utf8"' }],
    [{ "content-encoding": "identity" }],
  ])("%j are fine", (headers) => {
    expect(() => checkBodyHeaders(headers)).not.toThrow();
  });

  it.each([
    [{ "content-type": "application/json; charset=utf-16" }],
    [{ "content-type": "application/json; version=1; charset=latin1" }],
    [{ "content-encoding": "gzip" }],
    [{ "content-encoding": "identity, br" }],
  ])("%j are not", (headers) => {
    expect(failure(() => checkBodyHeaders(headers)).code).toBe("unsupported_media_type");
  });
});
