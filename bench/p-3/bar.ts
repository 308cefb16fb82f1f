/** P-3: completed runs per second at a hundred at once, against the peer and the bare graph on the same two cores. */
import type { Bar, BarResult, BenchOptions } from "../bar.ts";
import { BareProcess } from "../bare/bare-process.ts";
import { MeasuredProcess } from "../gates/measured-process.ts";
import { installPeer, PeerMissingError } from "../peers/installed-peer.ts";
import { bareEnvironment, openStage, type Stage } from "../stage/stage.ts";
import { StreamClient } from "../stage/stream-client.ts";
import { onTwoCores } from "../stage/two-cores.ts";
import { median, ms, percentile, rounded } from "../statistics.ts";
import { loadSide, type Load, type LoadResult, type Side } from "./load.ts";
import { PeerClient } from "./peer-client.ts";

const AT_ONCE = 100;
const SMOKE_AT_ONCE = 5;
const ROUND_COUNT = 3;
const RUNS_EACH = 2;
const TOKENS = 40;
const TOKEN_MS = 25;
const TIMES_PEER = 3;
const FIRST_TOKEN_MS = 700;
const PEER = { folder: "langgraph-api", name: "@langchain/langgraph-api", version: "1.5.1" } as const;

export const throughput: Bar = {
  id: "P-3",
  title: `Completed runs per second at ${AT_ONCE} at once, everything durable`,
  cases: ["P-3/runs", "P-3/first-token", "P-3/cpu"],
  measure,
};

async function* measure(options: BenchOptions): AsyncGenerator<BarResult> {
  const missing = await missingPeer(options);
  using cores = onTwoCores();
  await using stack = new AsyncDisposableStack();
  options.say("starting the model double, a database, the platform, a worker and the bare graph");
  const stage = stack.use(await openStage(["langgraph"], { room: AT_ONCE * 2 }));
  const ours = stack.use(platformSide(stage));
  const sides: Side[] = [stack.use(await bareSide(stage)), ours];
  if (missing === null) sides.push(stack.use(await peerSide(stage)));
  const measured = await rounds(sides, { stage, options });
  yield* resultsOf(measured, { options, missing, cores: cores.note });
}

/** Why there is no peer to be had; before anything is started, since the bare graph takes the same packages. */
async function missingPeer(options: BenchOptions): Promise<string | null> {
  try {
    await installPeer(PEER, options.say);
    return null;
  } catch (problem) {
    if (!(problem instanceof PeerMissingError)) throw problem;
    options.say(problem.message);
    return problem.message;
  }
}

function platformSide(stage: Stage): Side & Disposable {
  const client = new StreamClient({ url: stage.url, apiKey: stage.apiKey });
  return {
    name: "the platform",
    newConversation: () => stage.newConversation("langgraph"),
    async run(conversation, text) {
      const run = await client.send(conversation, text);
      if (run.outcome !== "completed") throw new Error(`a run did not complete: ${run.ending}`);
      return run;
    },
    pids: () => stage.pids,
    [Symbol.dispose]: () => client[Symbol.dispose](),
  };
}

async function bareSide(stage: Stage): Promise<Side & AsyncDisposable> {
  const bare = new BareProcess("chat graph", bareEnvironment(stage));
  let count = 0;
  return {
    name: "the bare graph",
    newConversation: () => Promise.resolve(`bare-${(count += 1)}`),
    run: (conversation, text) => bare.run({ conversation, text }),
    pids: () => [bare.pid],
    [Symbol.asyncDispose]: () => bare[Symbol.asyncDispose](),
  };
}

async function peerSide(stage: Stage): Promise<Side & AsyncDisposable> {
  const peer = await MeasuredProcess.start(`../peers/${PEER.folder}/server-main.ts`, {
    ...bareEnvironment(stage),
    PEER_WORKERS: String(AT_ONCE),
    LANGSMITH_TRACING: "false",
    LOG_LEVEL: "error",
  });
  const client = new PeerClient(String(peer.up.url));
  return {
    name: PEER.name,
    newConversation: () => client.newConversation(),
    run: (conversation, text) => client.run(conversation, text),
    pids: () => [peer.pid],
    async [Symbol.asyncDispose]() {
      client[Symbol.dispose]();
      await peer[Symbol.asyncDispose]();
    },
  };
}

interface Measured {
  readonly results: ReadonlyMap<string, readonly LoadResult[]>;
  readonly databaseCpuMs: readonly number[];
}

/** The sides after each other in every round, each round beginning with another. */
async function rounds(
  sides: readonly Side[],
  { stage, options }: { readonly stage: Stage; readonly options: BenchOptions },
): Promise<Measured> {
  const load: Load = {
    atOnce: options.smoke ? SMOKE_AT_ONCE : AT_ONCE,
    runsEach: RUNS_EACH,
    text: `[[sim:tokens ${TOKENS}]] [[sim:slow ${TOKEN_MS}]] Answer.`,
    answer: Array.from({ length: TOKENS }, (_, at) => `w${at} `).join(""),
  };
  const results = new Map<string, LoadResult[]>(sides.map(({ name }) => [name, []]));
  const databaseCpuMs: number[] = [];
  const count = options.runCount ?? ROUND_COUNT;
  for (let round = 0; round <= count; round += 1) {
    for (let at = 0; at < sides.length; at += 1) {
      options.interrupted.throwIfAborted();
      const side = sides[(round + at) % sides.length];
      if (side === undefined) continue;
      const before = stage.databaseCpuMs();
      const result = await loadSide(side, round === 0 ? { ...load, runsEach: 1 } : load);
      options.say(`${side.name}: ${result.runsPerSecond.toFixed(1)} runs/s${round === 0 ? ", to warm up" : ""}`);
      if (round === 0) continue;
      results.get(side.name)?.push(result);
      if (side.name === "the platform") {
        databaseCpuMs.push((stage.databaseCpuMs() - before) / result.firstTokensMs.length);
      }
    }
  }
  return { results, databaseCpuMs };
}

interface Circumstances {
  readonly options: BenchOptions;
  readonly missing: string | null;
  readonly cores: string;
}

function* resultsOf(measured: Measured, { options, missing, cores }: Circumstances): Generator<BarResult> {
  const all = [...measured.results];
  const of = (name: string): readonly LoadResult[] => measured.results.get(name) ?? [];
  const speed = (name: string): number => median(of(name).map((each) => each.runsPerSecond));
  const firstTokens = (name: string): readonly number[] => of(name).flatMap((each) => each.firstTokensMs);
  const n = firstTokens("the platform").length;
  const value = rounded(speed("the platform") / speed(missing === null ? PEER.name : "the bare graph"));
  const speeds = all.map(([name]) => `${name} ${speed(name).toFixed(1)}/s`).join(", ");
  const setting = `${PEER.version} with ${AT_ONCE} workers, in memory, its files written behind (it has no database to choose)`;
  if (options.wants("P-3/runs")) {
    yield {
      id: "P-3/runs",
      value,
      unit: missing === null ? "× the peer" : "× the bare graph",
      bar: missing === null ? TIMES_PEER : null,
      holds: missing === null ? value >= TIMES_PEER : null,
      n,
      note: `${speeds}; ${TOKENS} tokens ${TOKEN_MS} ms apart; ${cores}; ${missing ?? `${PEER.name} ${setting}`}`,
    };
  }
  if (options.wants("P-3/first-token")) {
    const p95 = rounded(percentile(firstTokens("the platform"), 0.95));
    const each = all.map(([name]) => `${name} ${ms(percentile(firstTokens(name), 0.95))}`).join(", ");
    const note = `p95 of each: ${each}`;
    yield {
      id: "P-3/first-token",
      value: p95,
      unit: "ms p95",
      bar: FIRST_TOKEN_MS,
      holds: p95 < FIRST_TOKEN_MS,
      n,
      note,
    };
  }
  if (options.wants("P-3/cpu")) {
    const cpu = (name: string): number => median(of(name).map((each) => each.cpuMsPerRun));
    const each = all.map(([name]) => `${name} ${ms(cpu(name))}`).join(", ");
    const note = `CPU per run of each: ${each}; PostgreSQL beside the platform ${ms(median(measured.databaseCpuMs))}`;
    yield { id: "P-3/cpu", value: rounded(cpu("the platform")), unit: "ms CPU", bar: null, holds: null, n, note };
  }
}
