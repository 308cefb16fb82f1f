/** What every executor owes a worker: the same model and tools, the same outcomes. */
import { createExecutor as createLanggraphExecutor } from "@signalbox/executor-langgraph";
import { createScriptedExecutor, playMessage } from "@signalbox/testkit";
import type { CreateExecutor } from "@signalbox/worker";
import { describe, expect, it } from "vitest";
import { linesOf, step, type EngineSceneOptions } from "./support/engine-scene.ts";
import { call, ECHO, say, scene, TOOLS } from "./support/engine-words.ts";

interface Candidate {
  readonly name: string;
  readonly createExecutor: CreateExecutor;
  /** What makes the engine do what the model says. */
  readonly message: (text: string) => string;
}

const CANDIDATES: readonly Candidate[] = [
  {
    name: "scripted",
    createExecutor: createScriptedExecutor,
    message: (text) => `${text} ${playMessage([{ model: true }])}`,
  },
  { name: "langgraph", createExecutor: createLanggraphExecutor, message: (text) => text },
];

describe.each(CANDIDATES)("executor $name", ({ createExecutor, message }) => {
  it("streams an answer as one item and makes the turn durable before its result", async () => {
    const { transcript, ...made } = await opened({ script: [say("The answer is 42.")] });
    const { result, events, texts } = await step(made.session, message("hello"));
    expect(result).toMatchObject({
      outcome: "done",
      answer: "The answer is 42.",
      error: null,
      servedModel: "sim/test",
    });
    expect(result.stopReason).toBe("end_turn");
    expect(texts).toEqual(["The answer is 42."]);
    expect(result.leaf).toBe(transcript.visible.at(-1)?.entryId);
    expect(made.session.leaf).toBe(result.leaf);
    const types = events.map((event) => event.type).filter((type) => type.startsWith("text."));
    expect(types.at(-1)).toBe("text.completed");
    expect(types.slice(0, -1).every((type) => type === "text.delta")).toBe(true);
  });

  it("calls tools under the model's id, and answers with its last message", async () => {
    const script = [call("docs__echo", { text: "a" }, "Let me look."), say("It says a.")];
    const made = await opened({ script, tools: TOOLS, snapshot: { tools: [ECHO] } });
    const { result, texts } = await step(made.session, message("look"));
    expect(result).toMatchObject({ outcome: "done", answer: "It says a." });
    expect(texts).toEqual(["Let me look.", "It says a."]);
    expect(made.mcp.calls).toHaveLength(1);
    const proposed = made.asked[1]?.messages.flatMap(({ content }) => content).find(({ type }) => type === "tool_use");
    expect(made.mcp.calls[0]?.meta["signalbox/toolUseId"]).toBe(proposed?.id);
    expect(linesOf(made.asked[1])).toContain("user result echo a");
  });

  it("keeps the partial answer of an interrupted step", async () => {
    const script = [{ parts: [{ text: "one two three four", break: "hang", breakAfterTokens: 2 }] } as const];
    const made = await opened({ script });
    const stop = new AbortController();
    const { result, texts } = await step(made.session, message("count"), {
      signal: stop.signal,
      onEvent: (event) => {
        if (event.type === "text.delta") {
          stop.abort();
        }
      },
    });
    expect(result.outcome).toBe("interrupted");
    expect(result.answer).not.toBe("");
    expect("one two three four".startsWith(result.answer)).toBe(true);
    expect(texts).toEqual([result.answer]);
    expect(result.leaf).toBe(made.transcript.visible.at(-1)?.entryId);
    await made.sim.waitFor((requests) => requests.every((request) => request.closedAtMs !== null));
  });

  it("goes on natively in another process, and rebuilt from the history", async () => {
    const made = await opened({ script: [say("First."), say("Second."), say("Third.")] });
    const { leaf } = (await step(made.session, message("one"))).result;
    made.transcript.finalize();
    made.transcript.claim();
    const native = await made.session$({ rung: "native", leaf });
    expect(native.leaf).toBe(leaf);
    expect((await step(native, message("two"))).result).toMatchObject({ outcome: "done", answer: "Second." });
    made.transcript.claim();
    const history = [{ role: "user", text: "before" }] as const;
    const rebuilt = await made.session$({ rung: "rebuilt", leaf: null, history });
    expect((await step(rebuilt, message("three"))).result.outcome).toBe("done");
  });

  it("refuses to go on from a leaf that is not there", async () => {
    const made = await opened({});
    await expect(made.session$({ rung: "native", leaf: "nowhere" })).rejects.toMatchObject({
      code: "transcript_corrupt",
    });
  });

  it.each(["slot_unknown", "stale_generation", "model_not_granted"])(
    "passes on the gate's refusal %s",
    async (code) => {
      const status = code === "model_not_granted" ? 403 : 410;
      const headers = { "signalbox-code": code };
      const made = await opened({ script: [{ status, headers, error: { type: "x", message: "no" } }] });
      const { result } = await step(made.session, message("hello"));
      expect(result).toMatchObject({ outcome: "failed", error: { code } });
      expect(made.asked).toHaveLength(1);
    },
  );

  it.each(["run_cancelled", "run_stopped"] as const)(
    "ends as interrupted when a gate hears of it first, and says who told: %s",
    async (code) => {
      const script = [
        call("docs__echo", { text: "a" }, "Let me look."),
        { status: 410, headers: { "signalbox-code": code }, error: { type: "x", message: "The run was ended." } },
      ];
      const made = await opened({ script, tools: TOOLS });
      const { result } = await step(made.session, message("look"));
      expect(result).toMatchObject({ outcome: "interrupted", error: { code } });
      expect(result.leaf).toBe(made.transcript.visible.at(-1)?.entryId);
    },
  );

  async function opened(options: Omit<EngineSceneOptions, "createExecutor">) {
    const made = await scene({ createExecutor, ...options });
    return {
      transcript: made.transcript,
      sim: made.sim,
      mcp: made.mcp,
      get asked() {
        return made.asked;
      },
      session: await made.session(),
      session$: made.session.bind(made),
    };
  }
});
