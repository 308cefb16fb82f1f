import { describe, expect, it } from "vitest";
import { traceIdOf } from "./trace.ts";

const TRACE = "0af7651916cd43dd8448eb211c80319c";
const PARENT = "b7ad6b7169203331";

describe("a trace", () => {
  it.each([
    `00-${TRACE}-${PARENT}-01`,
    `00-${TRACE}-${PARENT}-00`,
    `01-${TRACE}-${PARENT}-01`,
    `cc-${TRACE}-${PARENT}-01-x`,
  ])("goes on from %s", (header) => {
    expect(traceIdOf(header)).toBe(TRACE);
  });

  it.each([
    undefined,
    "",
    "nonsense",
    [`00-${TRACE}-${PARENT}-01`],
    `00-${TRACE}-${PARENT}-01, 00-${TRACE}-${PARENT}-01`,
    `00-${TRACE}-${PARENT}`,
    `00-${TRACE}-${PARENT}-01-x`,
    `ff-${TRACE}-${PARENT}-01`,
    `00-${TRACE.toUpperCase()}-${PARENT}-01`,
    `00-${"0".repeat(32)}-${PARENT}-01`,
    `00-${TRACE}-${"0".repeat(16)}-01`,
    `00-${TRACE}x-${PARENT}-01`,
  ])("begins anew with %j", (header) => {
    const first = traceIdOf(header);
    expect(first).toMatch(/^[0-9a-f]{32}$/);
    expect(first).not.toBe(TRACE);
    expect(traceIdOf(header)).not.toBe(first);
  });
});
