/** How long a message waits to be accepted, against the same request to a server that only inserts a row. */
import { Agent, request } from "node:http";
import type { Bar, BarResult, BenchOptions } from "../bar.ts";
import { MeasuredProcess } from "../gates/measured-process.ts";
import { openStage, type Stage } from "../stage/stage.ts";
import { median, ms, percentile, rounded } from "../statistics.ts";

const LOADS = [
  { atOnce: 1, requestCount: 300 },
  { atOnce: 16, requestCount: 640 },
  { atOnce: 256, requestCount: 1_024 },
] as const;
const WARM_UP_COUNT = 200;
const SMOKE_COUNT = 8;
/** As many as the platform's pool for requests. */
const CONNECTIONS = 10;
const MAKERS = 8;

export const admission: Bar = {
  id: "admission",
  title: "From a message to its acknowledgement, recorded and audited",
  cases: LOADS.map(({ atOnce }) => `admission/${atOnce}`),
  measure,
};

interface Target {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
}

async function* measure(options: BenchOptions): AsyncGenerator<BarResult> {
  options.say("starting a database, the platform, and a server that only inserts");
  await using stage = await openStage(["langgraph"]);
  await using bare = await MeasuredProcess.start("../admission/insert-main.ts", {
    BENCH_DATABASE_URL: stage.databaseUrl,
    BENCH_CONNECTIONS: String(CONNECTIONS),
  });
  const ours: Target = { url: stage.url, headers: { authorization: `Bearer ${stage.apiKey}` } };
  const theirs: Target = { url: String(bare.up.url), headers: {} };
  const loads = LOADS.filter(({ atOnce }) => options.wants(`admission/${atOnce}`));
  const countOf = (asked: number): number => (options.smoke ? SMOKE_COUNT : asked);
  const wanted = loads.reduce((sum, load) => sum + countOf(load.requestCount), countOf(WARM_UP_COUNT));
  const conversations = await newConversations(stage, wanted);
  // Nothing is to run: what is measured is the admission alone.
  await stage.stopWorkers();
  const send = async (load: { readonly atOnce: number; readonly count: number }) => {
    const some = conversations.splice(0, load.count);
    // In two halves, so that neither side always follows the other.
    const half = Math.ceil(some.length / 2);
    const times = { ours: [] as number[], bare: [] as number[] };
    for (const [part, first] of [
      [some.slice(0, half), theirs],
      [some.slice(half), ours],
    ] as const) {
      for (const target of first === ours ? [ours, theirs] : [theirs, ours]) {
        times[target === ours ? "ours" : "bare"].push(...(await sendAll(target, part, load.atOnce)));
      }
    }
    return times;
  };
  await send({ atOnce: MAKERS, count: countOf(WARM_UP_COUNT) });
  for (const { atOnce, requestCount } of loads) {
    options.interrupted.throwIfAborted();
    yield resultOf(atOnce, await send({ atOnce, count: countOf(requestCount) }));
  }
}

function resultOf(
  atOnce: number,
  times: { readonly ours: readonly number[]; readonly bare: readonly number[] },
): BarResult {
  const each = (values: readonly number[]): string => `p50 ${ms(median(values))}, p99 ${ms(percentile(values, 0.99))}`;
  return {
    id: `admission/${atOnce}`,
    value: rounded(median(times.ours) / median(times.bare)),
    unit: "× an insert",
    bar: null,
    holds: null,
    n: times.ours.length,
    note:
      `${atOnce} at once: platform ${each(times.ours)}; Fastify and one insert in a transaction ${each(times.bare)}; ` +
      `both with ${CONNECTIONS} connections to the same database, each message to a conversation of its own, no worker`,
  };
}

async function newConversations(stage: Stage, count: number): Promise<string[]> {
  const made: string[] = [];
  const make = async (): Promise<void> => {
    while (made.length < count) made.push(await stage.newConversation("langgraph"));
  };
  await Promise.all(Array.from({ length: MAKERS }, make));
  return made;
}

/** So many at once until all have been answered; how long each took. */
async function sendAll(target: Target, conversations: readonly string[], atOnce: number): Promise<readonly number[]> {
  const agent = new Agent({ keepAlive: true });
  const waiting = [...conversations];
  const times: number[] = [];
  const lane = async (): Promise<void> => {
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const startMs = performance.now();
      await sendOne(target, next, agent);
      times.push(performance.now() - startMs);
    }
  };
  await Promise.all(Array.from({ length: atOnce }, lane));
  agent.destroy();
  return times;
}

function sendOne({ url, headers }: Target, conversation: string, agent: Agent): Promise<void> {
  const body = JSON.stringify({ content: "A message of ordinary length, which somebody would like to have answered." });
  const all = { ...headers, "content-type": "application/json", "content-length": Buffer.byteLength(body) };
  return new Promise((resolve, reject) => {
    const path = `/v1/conversations/${conversation}/messages`;
    const sent = request(new URL(path, url), { method: "POST", agent, headers: all }, (response) => {
      let text = "";
      response.setEncoding("utf8").on("data", (piece: string) => (text += piece));
      response.on("end", () =>
        response.statusCode === 202 ? resolve() : reject(new Error(`${response.statusCode}: ${text.slice(0, 200)}`)),
      );
    });
    sent.on("error", reject);
    sent.end(body);
  });
}
