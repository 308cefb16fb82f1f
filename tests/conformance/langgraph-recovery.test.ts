/** A turn that a worker left in the middle, gone on with by another one from what the transcript and the ledger have. */
import { createExecutor } from "@signalbox/executor-langgraph";
import type { TranscriptEntry } from "@signalbox/worker";
import { describe, expect, it } from "vitest";
import { linesOf, recover, step, type EngineScene, type EngineSceneOptions } from "./support/engine-scene.ts";
import { say, scene, tool, TOOLS } from "./support/engine-words.ts";

const langgraph = (options: Omit<EngineSceneOptions, "createExecutor">) =>
  scene({ createExecutor, snapshot: { tools: [tool("docs__echo")] }, tools: TOOLS, ...options });

const BATCH = {
  parts: [
    { text: "Looking. " },
    { tool: "docs__echo", input: { text: "a" } },
    { tool: "docs__echo", input: { text: "b" } },
  ],
};

type Batches = readonly (readonly TranscriptEntry[])[];

async function batchesOf(text: string): Promise<Batches> {
  return (await turnsOf([text]))[0] ?? [];
}

/** What turns with two calls each appended, turn by turn and batch by batch. */
async function turnsOf(texts: readonly string[]): Promise<readonly Batches[]> {
  const made = await langgraph({ script: (_body, place) => (place % 2 === 0 ? BATCH : say("A and b.")) });
  let batches: (readonly TranscriptEntry[])[] = [];
  const turns: Batches[] = [];
  const { transcript } = made;
  const append = transcript.append.bind(transcript);
  transcript.append = (entries, generation) => {
    batches.push(entries);
    append(entries, generation);
  };
  const session = await made.session();
  for (const text of texts) {
    batches = [];
    await step(session, text);
    turns.push(batches);
  }
  return turns;
}

function left(made: EngineScene, batches: Batches): void {
  for (const entries of batches) made.transcript.append(entries, made.transcript.generation);
  made.transcript.claim({ adopt: true });
}

function callIds(entries: readonly TranscriptEntry[]): readonly string[] {
  const text = entries.map((entry) => Buffer.from(entry.body).toString()).join();
  return [...new Set([...text.matchAll(/"type":"tool_use","id":"([^"]+)"/g)].map(([, id]) => id ?? ""))];
}

const repaired = (made: EngineScene, finalized: string | null = null) =>
  made.session({ rung: "repaired", leaf: made.transcript.tail, finalized });

const RESULT = (text: string) => JSON.stringify({ content: [{ type: "text", text }] });

describe("langgraph recovery", () => {
  it("goes on from whatever was durable, makes no call twice, and asks the model only for what is missing", async () => {
    const batches = await batchesOf("Find it");
    expect(batches.length).toBeGreaterThan(2);
    for (let count = 1; count <= batches.length; count += 1) {
      const made = await langgraph({ script: [say("A and b.")] });
      left(made, batches.slice(0, count));
      const [first = "", second = ""] = callIds(made.transcript.visible);
      made.transcript.outcomes.set(first, { state: "succeeded", resultJson: RESULT("echo a") });
      made.transcript.outcomes.set(second, { state: "succeeded", resultJson: RESULT("echo b") });
      const session = await repaired(made);
      const { result, texts } = await recover(session, { itm_seen: "Looking. ", itm_gone: "Something else" });
      expect(result).toMatchObject({ outcome: "done", answer: "A and b.", error: null, leaf: made.transcript.tail });
      expect(made.mcp.calls).toEqual([]);
      expect(made.asked.length).toBe(count === batches.length ? 0 : 1);
      if (made.asked.length > 0) {
        expect(linesOf(made.asked[0])).toEqual([
          "user Find it",
          "assistant Looking. ",
          "assistant calls",
          "assistant calls",
          "user result echo a",
          "user result echo b",
        ]);
      }
      expect(texts).toEqual(["A and b."]);
      made.transcript.finalize();
      const next = await made.session({ rung: "native", leaf: made.transcript.leaf });
      await step(next, "And then?");
      expect(linesOf(made.asked.at(-1)).slice(-2)).toEqual(["assistant A and b.", "user And then?"]);
    }
  });

  it.each([
    ["read", "user result echo a", 1],
    ["write", expect.stringContaining("user result The outcome of this call is not known"), 0],
  ] as const)("of calls without an outcome only a look is taken again: %s", async (effect, told, callCount) => {
    const [first = []] = await batchesOf("Find it");
    const made = await langgraph({
      script: [say("Well.")],
      snapshot: { tools: [{ ...tool("docs__echo"), effect }] },
    });
    left(made, [first]);
    const [one = ""] = callIds(first);
    made.transcript.outcomes.set(one, { state: "unknown", resultJson: "" });
    const { result } = await recover(await repaired(made));
    expect(result).toMatchObject({ outcome: "done", answer: "Well." });
    expect(linesOf(made.asked[0]).slice(-2)).toEqual([
      told,
      expect.stringContaining("user result This call was not made"),
    ]);
    expect(made.mcp.calls).toHaveLength(callCount);
  });

  it("takes back what readers saw and the transcript lacks, and says what it has and they did not see", async () => {
    const batches = await batchesOf("Find it");
    const made = await langgraph({ script: [] });
    left(made, batches);
    const { events } = await recover(await repaired(made), { itm_1: "Looking. ", itm_2: "A and" });
    expect(events).toEqual([
      { type: "text.retracted", itemId: "itm_2", cause: "not_continued" },
      expect.objectContaining({ type: "text.completed", text: "A and b." }),
    ]);
  });

  it("cuts an answer that an interrupt broke off, and asks for it again", async () => {
    const made = await langgraph({ script: [say("One two three four"), say("Whole.")] });
    const stop = new AbortController();
    const first = await made.session();
    await step(first, "Tell me", {
      signal: stop.signal,
      onEvent: (event) => event.type === "text.delta" && stop.abort(),
    });
    made.transcript.claim({ adopt: true });
    const { result } = await recover(await repaired(made));
    expect(result).toMatchObject({ outcome: "done", answer: "Whole." });
    expect(linesOf(made.asked.at(-1))).toEqual(["user Tell me"]);
  });

  it("goes on behind finished turns, and finds nothing to go on with where there is nothing of the turn", async () => {
    const [one = [], two = []] = await turnsOf(["One", "Two"]);
    const made = await langgraph({ script: [say("A and b.")] });
    for (const entries of one) made.transcript.append(entries, 1);
    made.transcript.finalize();
    const finalized = made.transcript.leaf;
    await expect(repaired(made, finalized)).rejects.toMatchObject({ code: "transcript_corrupt" });
    left(made, two.slice(0, 1));
    const session = await repaired(made, finalized);
    const { result } = await recover(session);
    expect(result).toMatchObject({ outcome: "done", answer: "A and b." });
    expect(linesOf(made.asked[0]).filter((line) => line.startsWith("user ") && !line.includes("result"))).toEqual([
      "user One",
      "user Two",
    ]);
  });

  it("refuses a tail with a hole", async () => {
    const batches = await batchesOf("Find it");
    const made = await langgraph({ script: [] });
    left(made, [batches[0]!.slice(1), ...batches.slice(1)]);
    await expect(repaired(made)).rejects.toMatchObject({ code: "transcript_corrupt" });
  });
});
