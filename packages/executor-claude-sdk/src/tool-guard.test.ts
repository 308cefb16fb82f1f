import { expect, test } from "vitest";
import { denyUndecided, engineToolNames, guardHook } from "./tool-guard.ts";

const snapshot = { tools: [{ name: "docs__read" }, { name: "docs__list" }] } as unknown as Parameters<
  typeof engineToolNames
>[0];
const names = engineToolNames(snapshot);

/** What the engine is told about a call. */
async function decide(input: unknown, isOpen: () => boolean = () => true): Promise<string | undefined> {
  const [hook] = guardHook({ names, isOpen }).hooks;
  const output = await hook!(input as never, undefined, { signal: new AbortController().signal });
  return "hookSpecificOutput" in output && output.hookSpecificOutput?.hookEventName === "PreToolUse"
    ? output.hookSpecificOutput.permissionDecision
    : undefined;
}

test("a tool of the agent is allowed by its whole name", async () => {
  expect(await decide({ tool_name: "mcp__signalbox__docs__read" })).toBe("allow");
});

test.each([
  "docs__read",
  "mcp__signalbox__docs__write",
  "mcp__other__docs__read",
  "Bash",
  "mcp__signalbox__docs__read2",
  "",
])("%j is not", async (tool_name) => {
  expect(await decide({ tool_name })).toBe("deny");
});

test("no call starts when no turn runs or the turn was stopped", async () => {
  expect(await decide({ tool_name: "mcp__signalbox__docs__read" }, () => false)).toBe("deny");
});

test("whatever goes wrong means no", async () => {
  const thrown = (): never => {
    throw new Error("no");
  };
  expect(await decide({ tool_name: "mcp__signalbox__docs__read" }, thrown)).toBe("deny");
  for (const input of [null, undefined, {}, { tool_name: 7 }, "mcp__signalbox__docs__read"]) {
    expect(await decide(input)).toBe("deny");
  }
  expect(guardHook({ names, isOpen: () => true }).onFailure).toBe("block");
});

test("a call the hook did not decide is denied", async () => {
  expect(await denyUndecided("mcp__signalbox__docs__read", {}, {} as never)).toMatchObject({ behavior: "deny" });
});
