import { describe, expect, it } from "vitest";
import { checkArgument, NotComparable, problemOfValues, takesTypes } from "./argument-test.ts";

describe("a test of an argument", () => {
  it.each([
    ["/workspace/a.txt", true],
    ["/workspace", true],
    ["/workspace/../etc/passwd", false],
    ["/workspace/%2e%2e/etc/passwd", false],
    ["/workspace\\..\\etc", false],
    ["/workspaces/a", false],
    ["workspace/a", false],
    ["/../workspace/a", false],
    ["//workspace//./a", true],
  ])("keeps %s below /workspace or not: %s", (path, isBelow) => {
    expect(checkArgument("under_path", path, ["/workspace"])).toBe(isBelow);
  });

  it.each([
    ["https://example.com/x", true],
    ["https://EXAMPLE.com:8443", true],
    ["https://example.com./", true],
    ["https://api.example.com/", false],
    ["https://x.trusted.example/", true],
    ["https://trusted.example/", false],
    ["https://example.com@evil.example/", false],
    ["https://evil.example/#example.com", false],
    ["https://evil.example\\example.com/", false],
    ["example.com", false],
  ])("finds the host of %s among those named or not: %s", (link, isOne) => {
    expect(checkArgument("host_in", link, ["example.com", ".trusted.example"])).toBe(isOne);
  });

  it("is not escaped by another type, and is passed by nothing that is absent", () => {
    expect(() => checkArgument("more_than", "20000", [10_000])).toThrow(NotComparable);
    expect(() => checkArgument("starts_with", ["a"], ["a"])).toThrow(NotComparable);
    expect(() => checkArgument("equals", { a: 1 }, ["a"])).toThrow(NotComparable);
    expect(checkArgument("more_than", undefined, [10_000])).toBe(false);
    expect(checkArgument("present", undefined, [])).toBe(false);
    expect(checkArgument("present", null, [])).toBe(true);
  });

  it("says what is wrong with its values", () => {
    expect(problemOfValues("more_than", ["10"])).toMatch(/number/);
    expect(problemOfValues("more_than", [])).toMatch(/needs/);
    expect(problemOfValues("present", [1])).toMatch(/no value/);
    expect(problemOfValues("host_in", [1])).toMatch(/texts/);
    expect(problemOfValues("equals", [null])).toBeNull();
  });

  it("takes the types that the tool's schema names", () => {
    expect(takesTypes("more_than", ["integer"])).toBe(true);
    expect(takesTypes("more_than", ["string"])).toBe(false);
    expect(takesTypes("more_than", ["string", "number"])).toBe(true);
    expect(takesTypes("starts_with", [])).toBe(true);
    expect(takesTypes("present", ["object"])).toBe(true);
  });
});
