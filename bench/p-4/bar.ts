/** P-4: many streams at once, each token timed from the double's own write to the client. */
import type { Bar, BarResult, BenchOptions } from "../bar.ts";
import { openStage } from "../stage/stage.ts";
import { onTwoCores } from "../stage/two-cores.ts";
import { median, ms, percentile, rounded } from "../statistics.ts";
import { watchStreams, type Seen } from "./streams.ts";

const MANY = 250;
const SMOKE_COUNT = 3;
const WINDOW_MS = 8_000;
const SMOKE_WINDOW_MS = 1_000;
const TOKEN_MS = 50;
/** More than anybody waits for: what is left is cancelled. */
const TOKENS = 8_000;
const CPU_US = 100;
const LAG_MS = 100;
const FEW_LAG_MS = 50;
const FEW = [
  { runtime: "langgraph", count: 50 },
  { runtime: "claude_sdk", count: 10 },
] as const;
const FEW_CASES = FEW.map(({ runtime, count }) => ({ runtime, count, id: `P-4/${runtime}-${count}` }));

export const streaming: Bar = {
  id: "P-4",
  title: `${MANY} streams at ${1_000 / TOKEN_MS} tokens a second`,
  cases: ["P-4/cpu", "P-4/lag", "P-4/rows", ...FEW_CASES.map(({ id }) => id)],
  measure,
};

async function* measure(options: BenchOptions): AsyncGenerator<BarResult> {
  using cores = onTwoCores();
  const few = FEW_CASES.filter(({ id }) => options.wants(id));
  const many = ["P-4/cpu", "P-4/lag", "P-4/rows"].some((id) => options.wants(id));
  const runtimes = new Set([...(many ? ["langgraph"] : []), ...few.map(({ runtime }) => runtime)]);
  options.say(`starting a double that stamps its tokens, a database, the platform and ${[...runtimes].join(", ")}`);
  await using stage = await openStage([...runtimes], {
    room: MANY + 10,
    double: ["--tokens", String(TOKENS), "--token-delay-ms", String(TOKEN_MS), "--timestamps"],
  });
  const watch = (runtime: string, count: number): Promise<Seen> => {
    const asked = options.smoke ? SMOKE_COUNT : count;
    options.say(`${asked} streams of ${runtime}`);
    const windowMs = options.smoke ? SMOKE_WINDOW_MS : WINDOW_MS;
    return watchStreams(stage, { runtime, count: asked, windowMs, interrupted: options.interrupted });
  };
  for (const { id, runtime, count } of few) yield lagOf(id, await watch(runtime, count), FEW_LAG_MS);
  if (many) yield* ofMany(await watch("langgraph", MANY), { options, cores: cores.note });
}

function lagOf(id: string, { lagsMs, tokenCount }: Seen, bar: number): BarResult {
  const value = rounded(percentile(lagsMs, 0.95));
  const note = `p50 ${ms(median(lagsMs))}, p99 ${ms(percentile(lagsMs, 0.99))}, from the double's own write to the client`;
  return { id, value, unit: "ms p95", bar, holds: value <= bar, n: tokenCount, note };
}

function* ofMany(
  seen: Seen,
  { options, cores }: { readonly options: BenchOptions; readonly cores: string },
): Generator<BarResult> {
  const perToken = (cpuMs: number): number => (cpuMs * 1_000) / seen.tokenCount;
  const n = seen.tokenCount;
  if (options.wants("P-4/cpu")) {
    const value = rounded(perToken(seen.platformCpuMs + seen.workerCpuMs));
    const note =
      `platform ${perToken(seen.platformCpuMs).toFixed(1)}, worker ${perToken(seen.workerCpuMs).toFixed(1)}; ` +
      `PostgreSQL beside it ${perToken(seen.databaseCpuMs).toFixed(1)}; double and client on the same ${cores}`;
    yield { id: "P-4/cpu", value, unit: "µs a token", bar: CPU_US, holds: value <= CPU_US, n, note };
  }
  if (options.wants("P-4/lag")) yield lagOf("P-4/lag", seen, LAG_MS);
  if (options.wants("P-4/rows")) {
    const value = rounded(seen.rowCount / n);
    const note = `${seen.rowCount} rows of events for ${n} tokens`;
    yield { id: "P-4/rows", value, unit: "rows a token", bar: 1, holds: value < 1, n, note };
  }
}
