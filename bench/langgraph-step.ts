/**
 * What a step of the langgraph session costs until its first token, beyond the bare graph: same process, same model
 * double (a process of its own), one run of each in turn. `node --conditions=@signalbox/source bench/langgraph-step.ts`.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { Annotation, MemorySaver, START, StateGraph } from "@langchain/langgraph";
import { makeId, uuidV7Bytes, type Snapshot } from "@signalbox/contract";
import { createExecutor } from "@signalbox/executor-langgraph";
import { MemoryTranscript } from "@signalbox/testkit";
import type { EngineSession, SessionContext, StepEvent } from "@signalbox/worker";
import { randomBytes } from "node:crypto";

const RUNS_COUNT = Number(process.env.RUNS ?? 300);
const WARM_UP_COUNT = 100;
const TOKENS_COUNT = 20;

interface Sample {
  readonly firstTokenMs: number;
  readonly endMs: number;
}

async function main(): Promise<void> {
  const double = await startDouble();
  try {
    const bare = bareGraph(double.url);
    const ours = await langgraphSession(double.url);
    const samples: Record<string, Sample[]> = { bare: [], raw: [], ours: [] };
    for (let run = 0; run < WARM_UP_COUNT + RUNS_COUNT; run += 1) {
      const results = { bare: await bare(), raw: await rawFetch(double.url), ours: await ours.step() };
      if (run >= WARM_UP_COUNT) {
        for (const [name, sample] of Object.entries(results)) {
          samples[name]?.push(sample);
        }
      }
    }
    await ours.end();
    report(samples, ours.appends());
  } finally {
    double.stop();
  }
}

function report(samples: Readonly<Record<string, readonly Sample[]>>, appendsPerRun: number): void {
  const row = (name: string) => {
    const first = (samples[name] ?? []).map((sample) => sample.firstTokenMs);
    const end = (samples[name] ?? []).map((sample) => sample.endMs);
    return { first: percentile(first, 0.5), first95: percentile(first, 0.95), end: percentile(end, 0.5) };
  };
  for (const name of Object.keys(samples)) {
    const { first, first95, end } = row(name);
    console.log(`${name.padEnd(5)} first token p50 ${ms(first)} p95 ${ms(first95)}   end p50 ${ms(end)}`);
  }
  const paired = (samples.ours ?? []).map(
    (sample, at) => sample.firstTokenMs - (samples.bare?.[at]?.firstTokenMs ?? 0),
  );
  console.log(
    `ours − bare: p50 difference ${ms(row("ours").first - row("bare").first)}, median of pairs ${ms(percentile(paired, 0.5))}`,
  );
  console.log(`appends per run ${appendsPerRun}, runs ${RUNS_COUNT}`);
}

/** The floor: one request, read until the first text delta. */
async function rawFetch(url: string): Promise<Sample> {
  return timed(async (first) => {
    await streamText(url, [{ role: "user", content: "hello" }], first);
  });
}

/** What a team writes itself: one node, the same request, tokens handed on by a callback, checkpoints in memory. */
function bareGraph(url: string): () => Promise<Sample> {
  const State = Annotation.Root({
    messages: Annotation<readonly object[]>({ reducer: (before, added) => [...before, ...added], default: () => [] }),
  });
  let onToken: () => void = () => undefined;
  const graph = new StateGraph(State)
    .addNode("model", async (state) => {
      const text = await streamText(url, state.messages, () => onToken());
      return { messages: [{ role: "assistant", content: text }] };
    })
    .addEdge(START, "model")
    .compile({ checkpointer: new MemorySaver() });
  let count = 0;
  return () =>
    timed(async (first) => {
      onToken = first;
      count += 1;
      const input = { messages: [{ role: "user", content: "hello" }] };
      await graph.invoke(input, { configurable: { thread_id: `bare-${count}` } });
    });
}

async function streamText(url: string, messages: readonly object[], onToken: () => void): Promise<string> {
  const body = JSON.stringify({ model: "sim/instant", max_tokens: 1000, stream: true, messages });
  const response = await fetch(`${url}/v1/messages`, {
    method: "POST",
    headers: { "content-type": "application/json", "anthropic-version": "2023-06-01", authorization: "Bearer bench" },
    body,
  });
  if (!response.ok) {
    throw new Error(await response.text());
  }
  let text = "";
  let rest = "";
  const decoder = new TextDecoder();
  for await (const chunk of response.body ?? []) {
    rest += decoder.decode(chunk, { stream: true });
    for (let end = rest.indexOf("\n\n"); end >= 0; end = rest.indexOf("\n\n")) {
      const at = rest.indexOf("data: ");
      const event = JSON.parse(rest.slice(at + 6, end)) as { type: string; delta?: { text?: string } };
      rest = rest.slice(end + 2);
      if (event.type === "content_block_delta" && event.delta?.text !== undefined) {
        onToken();
        text += event.delta.text;
      }
    }
  }
  return text;
}

/** A session of ours, opened anew for every run like the bare graph's conversation; opening is outside the measure. */
async function langgraphSession(url: string) {
  const executor = await createExecutor({ scratchDir: "" });
  await executor.warm?.();
  let session: EngineSession = await executor.open(context(url, new MemoryTranscript()));
  let appendCount = 0;
  return {
    end: async () => executor[Symbol.asyncDispose]?.(),
    appends: () => appendCount,
    step: async (): Promise<Sample> => {
      const transcript = new MemoryTranscript();
      session = await executor.open(context(url, transcript));
      const sample = await timed(async (first) => {
        const emit = (event: StepEvent): void => {
          if (event.type === "text.delta") {
            first();
          }
        };
        const input = { kind: "message", turnId: "trn_1", runId: "run_1", parts: ["hello"] } as const;
        const result = await session.step(input, emit, new AbortController().signal);
        if (result.outcome !== "done") {
          throw new Error(`the step ended as ${result.outcome}: ${result.error?.detail ?? ""}`);
        }
      });
      appendCount = transcript.appendCount;
      await session[Symbol.asyncDispose]();
      return sample;
    },
  };
}

function context(url: string, transcript: MemoryTranscript): SessionContext {
  return {
    tenantId: "tenant",
    conversationId: "cnv_bench",
    generation: 1,
    snapshot: SNAPSHOT,
    snapshotHash: "",
    slotToken: "bench",
    gates: { model: url, tool: `${url}/mcp` },
    continuity: { rung: "fresh", leaf: null, finalized: null, history: [] },
    transcript: transcript.log(),
    newItemId: () => makeId("item", uuidV7Bytes(Date.now(), randomBytes(10))),
    onLost: (code, detail) => {
      throw new Error(`${code}: ${detail}`);
    },
  };
}

const SNAPSHOT: Snapshot = {
  agentId: "agt_1",
  agentName: "bench",
  revision: 1,
  runtime: "langgraph",
  instructions: "Answer.",
  model: "sim/instant",
  maxOutputTokens: 1000,
  tools: [],
  limits: { modelCallCount: 10, toolCallCount: 10, wallClockMs: 60_000 },
};

async function timed(run: (first: () => void) => Promise<void>): Promise<Sample> {
  const startMs = performance.now();
  let firstTokenMs = 0;
  await run(() => {
    firstTokenMs ||= performance.now() - startMs;
  });
  return { firstTokenMs, endMs: performance.now() - startMs };
}

async function startDouble() {
  const main = new URL("../packages/testkit/src/sim/main.ts", import.meta.url).pathname;
  const args = ["--conditions=@signalbox/source", main, "--tokens", String(TOKENS_COUNT), "--exit-with-parent"];
  const child = spawn(process.execPath, args, { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout });
  const [line] = (await once(lines, "line")) as [string];
  const { url } = JSON.parse(line) as { url: string };
  return { url, stop: () => child.stdin.end() };
}

function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

function ms(value: number): string {
  return `${value.toFixed(2)} ms`;
}

await main();
