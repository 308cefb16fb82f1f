import { expect, test } from "vitest";
import type { SessionContext } from "@signalbox/worker";
import { engineOptions } from "./engine-settings.ts";

const directories = { root: "/s", home: "/s/h", config: "/s/c", temporary: "/s/t" };
const plan = {
  sessionId: "00000000-0000-8000-8000-000000000000",
  rows: new Map(),
  leaf: null,
  sizeBytes: 0,
  unanswered: [],
  unfinished: null,
};
const guard = { names: new Set<string>(), isOpen: () => true };

function optionsFor(snapshot: Partial<SessionContext["snapshot"]>) {
  const context = {
    slotToken: "slot-token",
    gates: { model: "http://gates/model", tool: "http://gates/mcp/units/default" },
    snapshot: {
      instructions: "Be brief.",
      model: "sim/sim-1",
      maxOutputTokens: 4_096,
      tools: [{ name: "docs__read" }],
      limits: { modelCallCount: 8, toolCallCount: 8, wallClockMs: 60_000 },
      ...snapshot,
    },
  } as unknown as SessionContext;
  return engineOptions({ context, directories, plan, guard });
}

test("the engine may do nothing by itself and load nothing from disk", () => {
  expect(optionsFor({})).toMatchObject({
    tools: [],
    skills: [],
    settingSources: [],
    strictMcpConfig: true,
    permissionMode: "default",
    verbatimPrompts: true,
    mcpServersDelivery: "initialize",
    sessionStoreFlush: "eager",
    systemPrompt: { type: "custom", prompt: "Be brief.", snapshot: false },
    maxTurns: 9,
  });
  expect(optionsFor({})).not.toHaveProperty("allowedTools");
});

test("its environment is a closed list", () => {
  const names = Object.keys(optionsFor({}).env ?? {});
  expect(
    names.filter((name) => !/^(CLAUDE_|DISABLE_|ANTHROPIC_(BASE_URL|AUTH_TOKEN|CUSTOM_HEADERS)$)/.test(name)).sort(),
  ).toEqual(["HOME", "LANG", "PATH", "TMPDIR"]);
  expect(names).not.toContain("CLAUDE_CODE_SIMPLE");
  expect(names).not.toContain("ANTHROPIC_API_KEY");
});

test("models of others get the classic wire, Anthropic's their own", () => {
  const plain = optionsFor({ model: "ollama/qwen2.5:3b" });
  expect(plain).toMatchObject({ model: "ollama/qwen2.5:3b", thinking: { type: "disabled" } });
  expect(plain.env).toHaveProperty("CLAUDE_CODE_MODEL_CAPABILITIES");
  const anthropic = optionsFor({ model: "anthropic/claude-sonnet-5" });
  expect(anthropic.model).toBe("anthropic/claude-sonnet-5");
  expect(anthropic).not.toHaveProperty("thinking");
  expect(anthropic.env).not.toHaveProperty("CLAUDE_CODE_MODEL_CAPABILITIES");
});

test("thinking leaves room for the answer, and is off where there is none", () => {
  const model = "anthropic/claude-haiku-4-5";
  expect(optionsFor({ model, maxOutputTokens: 4_096 }).env).toMatchObject({
    MAX_THINKING_TOKENS: "2048",
    CLAUDE_CODE_MAX_OUTPUT_TOKENS: "4096",
  });
  expect(optionsFor({ model, maxOutputTokens: 1_000 })).toMatchObject({ thinking: { type: "disabled" } });
});

test("an agent without tools starts no tool server", () => {
  expect(optionsFor({ tools: [] }).mcpServers).toEqual({});
});

test("a session with a transcript is resumed, one without is begun under its own id", () => {
  expect(optionsFor({})).toMatchObject({ sessionId: plan.sessionId });
  expect(optionsFor({})).not.toHaveProperty("resume");
});
