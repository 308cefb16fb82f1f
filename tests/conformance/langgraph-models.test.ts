/** What the langgraph executor makes of what a model says, and of what it does not. */
import { ERROR_CODES } from "@signalbox/contract";
import type { ScriptedAnswer } from "@signalbox/testkit";
import type { StepEvent } from "@signalbox/worker";
import { createExecutor } from "@signalbox/executor-langgraph";
import { describe, expect, it } from "vitest";
import { linesOf, step, type EngineSceneOptions } from "./support/engine-scene.ts";
import { call, say, scene, TOOLS } from "./support/engine-words.ts";

const langgraph = (options: Omit<EngineSceneOptions, "createExecutor">) => scene({ createExecutor, ...options });

describe("langgraph models", () => {
  it("tries again before the first token silently, and after it with a retraction", async () => {
    const made = await langgraph({
      script: [
        { status: 529, error: { type: "overloaded_error", message: "busy" } },
        {
          parts: [{ text: "The invoice total is wrong", break: { error: { type: "overloaded_error", message: "x" } } }],
        },
        say("All good."),
      ],
    });
    const { result, events, items, texts } = await step(await made.session(), "total?");
    expect(result).toMatchObject({ outcome: "done", answer: "All good." });
    expect(texts).toEqual(["All good."]);
    expect([...items.values()]).toEqual([null, "All good."]);
    expect(events.filter((event) => event.type === "text.retracted")).toMatchObject([{ cause: "provider_overloaded" }]);
    expect(events.some((event) => event.type === "run.phase" && event.phase === "waiting_provider")).toBe(true);
    await step(await made.session({ rung: "native", leaf: result.leaf }), "again");
    expect(linesOf(made.asked.at(-1))).toEqual(["user total?", "assistant All good.", "user again"]);
  });

  it.each([500, 502, 504, 529])("tries again after %i", async (status) => {
    const made = await langgraph({ script: [{ status }, say("Here.")] });
    expect((await step(await made.session(), "hi")).result).toMatchObject({ outcome: "done", answer: "Here." });
  });

  it("tries a bounded number of times, and says that asking again can help", async () => {
    const made = await langgraph({ script: () => ({ status: 500 }) });
    const { result } = await step(await made.session(), "hi");
    expect(result).toMatchObject({ outcome: "failed", error: { code: "provider_failed" } });
    expect(ERROR_CODES.provider_failed.retryable).toBe(true);
    expect(made.asked).toHaveLength(4);
  });

  it("stops waiting for a provider when it is interrupted", async () => {
    const made = await langgraph({ script: [{ status: 429, headers: { "retry-after": "30" } }] });
    const stop = new AbortController();
    const { result } = await step(await made.session(), "hi", {
      signal: stop.signal,
      onEvent: (event) => {
        if (event.type === "run.phase" && event.phase === "waiting_provider") stop.abort();
      },
    });
    expect(result.outcome).toBe("interrupted");
  });

  it.each([400, 402, 403, 410, 412, 413])("never tries again after %i", async (status) => {
    const made = await langgraph({ script: [{ status, headers: { "retry-after": "0" } }, say("no")] });
    const { result } = await step(await made.session(), "hi");
    expect(result.outcome).toBe("failed");
    expect(made.asked).toHaveLength(1);
  });

  it("gives up when told to wait longer than it may", async () => {
    const made = await langgraph({
      script: [{ status: 429, headers: { "retry-after": "Wed, 21 Oct 2099 07:28:00 GMT" } }],
    });
    const { result } = await step(await made.session(), "hi");
    expect(result.error?.code).toBe("provider_rate_limited");
    expect(made.asked).toHaveLength(1);
  });

  it("forgets a turn that failed: what a provider refuses does not poison the next", async () => {
    const made = await langgraph({ script: [say("ok"), { status: 400 }, say("still here")] });
    const session = await made.session();
    await step(session, "good");
    const { result } = await step(session, "poison");
    expect(result).toMatchObject({ outcome: "failed", leaf: null });
    await step(session, "next");
    expect(linesOf(made.asked.at(-1))).toEqual(["user good", "assistant ok", "user next"]);
  });

  it("keeps what tools did when the turn fails after them", async () => {
    const made = await langgraph({
      script: [call("docs__echo", { text: "x" }), { status: 400 }, say("ok")],
      tools: TOOLS,
    });
    const session = await made.session();
    expect((await step(session, "go")).result.outcome).toBe("failed");
    await step(session, "next");
    expect(linesOf(made.asked.at(-1))).toEqual(["user go", "assistant calls", "user result echo x", "user next"]);
    expect(made.mcp.calls).toHaveLength(1);
  });

  it("ends an answer that was cut off as output_truncated with what there is, and runs no call of it", async () => {
    const cut = {
      parts: [{ text: "As far as" }, { tool: "docs__echo", input: { text: "all" } }],
      stop: "max_tokens",
    } as const;
    const made = await langgraph({ script: [cut, say("Shorter.")], tools: TOOLS });
    const session = await made.session();
    const { result, texts } = await step(session, "long");
    expect(result).toMatchObject({ outcome: "failed", answer: "As far as", error: { code: "output_truncated" } });
    expect(result.stopReason).toBe("max_tokens");
    expect(texts).toEqual(["As far as"]);
    expect(made.mcp.calls).toHaveLength(0);
    await step(session, "shorter");
    expect(linesOf(made.asked.at(-1))).toEqual(["user long", "assistant As far as", "user shorter"]);
  });

  it.each<[string, ScriptedAnswer, string]>([
    ["a refusal", { parts: [{ text: "I will" }], stop: "refusal" }, "refused"],
    ["an empty answer", { parts: [] }, "answer_missing"],
    ["a blank answer", { parts: [{ text: " \n" }] }, "answer_missing"],
  ])("ends %s with its code and keeps none of it", async (_name, answer, code) => {
    const made = await langgraph({ script: [answer, say("fine")] });
    const session = await made.session();
    const { result } = await step(session, "hm");
    expect(result).toMatchObject({ outcome: "failed", error: { code }, leaf: null });
    await step(session, "well");
    expect(linesOf(made.asked.at(-1))).toEqual(["user well"]);
  });

  it("ends a model that never stops calling tools", async () => {
    const limits = { modelCallCount: 3, toolCallCount: 100, wallClockMs: 60_000 };
    const made = await langgraph({
      script: [call("docs__echo", { text: "again" })],
      tools: TOOLS,
      snapshot: { limits },
    });
    const { result } = await step(await made.session(), "loop");
    expect(result).toMatchObject({ outcome: "failed", error: { code: "run_timeout" } });
    expect(made.asked.length).toBeLessThanOrEqual(4);
  });

  it("tells thinking as items of its own, and replays it only to the model that thought it", async () => {
    const thoughtful = { parts: [{ thinking: "Hm, let me see.", signature: "sig" }, { text: "Yes." }] };
    const made = await langgraph({ script: [thoughtful, say("ok")] });
    const session = await made.session();
    const { events } = await step(session, "think");
    expect(thinkingOf(events)).toEqual(["Hm, let me see."]);
    await step(session, "more");
    const types = made.asked.at(-1)?.messages[1]?.content.map(({ type }) => type);
    expect(types).toEqual(["thinking", "text"]);
  });
});

function thinkingOf(events: readonly StepEvent[]): readonly string[] {
  return events.flatMap((event) => (event.type === "thinking.completed" ? [event.text] : []));
}
