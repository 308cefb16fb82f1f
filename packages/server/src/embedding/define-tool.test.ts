import { PlatformError } from "@signalbox/contract";
import { describe, expect, it } from "vitest";
import { z } from "zod";
import { defineTool, type ToolDefinition } from "./define-tool.ts";

const CONTEXT = { idempotencyKey: "k", signal: new AbortController().signal, traceparent: null };
const INPUT = z.object({ cents: z.int().positive().default(5) });

function tool(changes: Partial<ToolDefinition<typeof INPUT>> = {}) {
  return defineTool({
    name: "refund",
    effect: "write",
    input: INPUT,
    run: ({ cents }) => ({ paid: cents }),
    ...changes,
  });
}

function refusal(make: () => unknown): string {
  try {
    make();
    return "accepted";
  } catch (thrown) {
    if (!(thrown instanceof PlatformError) || thrown.code !== "invalid_request") throw thrown;
    return thrown.detail;
  }
}

describe("a function as a tool", () => {
  it("is called with what its schema makes of the arguments, and answers as MCP does", async () => {
    const text = '{"paid":5}';
    expect(await tool().call({}, CONTEXT)).toEqual({
      content: [{ type: "text", text }],
      structuredContent: { paid: 5 },
    });
    expect(await tool().call({ cents: -1 }, CONTEXT)).toMatchObject({ isError: true });
    expect(await tool({ run: () => "done" }).call({}, CONTEXT)).toEqual({ content: [{ type: "text", text: "done" }] });
    expect(await tool({ run: () => undefined }).call({}, CONTEXT)).toEqual({ content: [] });
    const result = { content: [{ type: "text", text: "own" }], isError: true };
    expect(await tool({ run: () => result }).call({}, CONTEXT)).toBe(result);
  });

  it("has acted, also where its answer cannot be written", async () => {
    const circular: Record<string, unknown> = {};
    circular.itself = circular;
    const answer = await tool({ run: () => circular }).call({}, CONTEXT);
    expect(answer).toMatchObject({ content: [{ text: expect.stringContaining("It is done.") }] });
    expect(answer.isError).toBeUndefined();
  });

  it("is refused under a name that models do not take, or with an input that is no object", () => {
    expect(refusal(() => tool({ name: "re fund" }))).toContain("re fund");
    expect(refusal(() => defineTool({ name: "a", effect: "read", input: z.string(), run: () => "" }))).toContain(
      "object",
    );
  });

  it.each([0, -1, 99, 1.5, Number.NaN, Number.POSITIVE_INFINITY, 3_600_001])(
    "is refused a time of %s ms",
    (timeoutMs) => {
      expect(refusal(() => tool({ timeoutMs }))).toContain("timeoutMs");
    },
  );

  it("is refused a class or a mode that there is not, as a program without types may say", () => {
    const untyped = (changes: object) => tool(changes);
    expect(refusal(() => untyped({ effect: "safe" }))).toContain("effect");
    expect(refusal(() => untyped({ approve: "maybe" }))).toContain("approve");
    expect(refusal(() => untyped({ timeoutMs: 3_600_000, effect: "irreversible", approve: "never" }))).toBe("accepted");
  });
});
