/**
 * Tests of one argument. An argument that is absent passes no test. One of another type than the test takes cannot be
 * judged: that is an error, and an error denies; a test must not be escaped by sending `"20000"` for 20000.
 */
import { ARGUMENT_TESTS, type ArgumentTest, type PolicyScalar } from "@signalbox/contract";

export class NotComparable extends Error {}

export type Values = readonly PolicyScalar[];
type Check = (value: unknown, against: Values) => boolean;

const CHECKS: Readonly<Record<ArgumentTest, Check>> = {
  present: () => true,
  equals: (value, against) => against[0] === scalar(value),
  one_of: (value, against) => against.includes(scalar(value)),
  more_than: (value, against) => number(value) > bound(against),
  at_least: (value, against) => number(value) >= bound(against),
  less_than: (value, against) => number(value) < bound(against),
  at_most: (value, against) => number(value) <= bound(against),
  longer_than: (value, against) => length(value) > bound(against),
  starts_with: (value, against) => against.some((each) => string(value).startsWith(String(each))),
  ends_with: (value, against) => against.some((each) => string(value).endsWith(String(each))),
  contains: (value, against) => against.some((each) => string(value).includes(String(each))),
  under_path: (value, against) => against.some((each) => isUnder(string(value), String(each))),
  host_in: (value, against) => hostIn(string(value), against),
};

export function checkArgument(test: ArgumentTest, value: unknown, against: Values): boolean {
  return value !== undefined && CHECKS[test](value, against);
}

/** What is wrong with the values a test is given, in words, or `null`. */
export function problemOfValues(test: ArgumentTest, values: Values): string | null {
  const needed = ARGUMENT_TESTS[test];
  if (needed === "any") return values.length === 0 ? null : "This test takes no value.";
  if (values.length === 0) return "This test needs a value.";
  if (needed === "scalar") return test === "equals" && values.length > 1 ? "This test takes one value." : null;
  if (needed === "string") return values.every((each) => typeof each === "string") ? null : "This test takes texts.";
  return values.length === 1 && typeof values[0] === "number" ? null : "This test takes one number.";
}

const TAKEN: Readonly<Record<(typeof ARGUMENT_TESTS)[ArgumentTest], readonly string[] | null>> = {
  any: null,
  scalar: ["string", "number", "integer", "boolean", "null"],
  number: ["number", "integer"],
  sized: ["string", "array"],
  string: ["string"],
};

/** Whether an argument whose schema names these types can be tested so; of an argument without a type nobody knows. */
export function takesTypes(test: ArgumentTest, types: readonly string[]): boolean {
  const taken = TAKEN[ARGUMENT_TESTS[test]];
  return taken === null || types.length === 0 || types.some((type) => taken.includes(type));
}

function scalar(value: unknown): PolicyScalar {
  if (value === null || typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "boolean") return value;
  throw new NotComparable();
}

function number(value: unknown): number {
  if (typeof value === "number" && Number.isFinite(value)) return value;
  throw new NotComparable();
}

function string(value: unknown): string {
  if (typeof value === "string") return value;
  throw new NotComparable();
}

function length(value: unknown): number {
  if (typeof value === "string" || Array.isArray(value)) return value.length;
  throw new NotComparable();
}

function bound(against: Values): number {
  return number(against[0]);
}

/** Whether a path stays below another one once its dots are followed. Back-slashes and encoded dots are nobody's path. */
function isUnder(path: string, above: string): boolean {
  if (/[\\\0]|%2e|%2f|%5c/i.test(path)) return false;
  const parts: string[] = [];
  for (const part of path.split("/")) {
    if (part === "" || part === ".") continue;
    if (part === ".." && parts.pop() === undefined) return false;
    if (part !== "..") parts.push(part);
  }
  const wanted = above.split("/").filter((part) => part !== "");
  return path.startsWith("/") === above.startsWith("/") && wanted.every((part, index) => parts[index] === part);
}

const AUTHORITY = /^[a-z][a-z0-9+.-]*:\/\/([^/?#\\\s]*)(?:[/?#]|$)/i;

/** `example.com` is that host and no other; `.example.com` is whatever stands below it. */
function hostIn(link: string, hosts: Values): boolean {
  const [, authority = ""] = AUTHORITY.exec(link.trim()) ?? [];
  if (authority === "" || authority.includes("@")) return false;
  const host = authority.replace(/:\d*$/, "").replace(/\.$/, "").toLowerCase();
  return hosts.some((each) => {
    const wanted = String(each).toLowerCase();
    return wanted.startsWith(".") ? host.endsWith(wanted) : host === wanted;
  });
}
