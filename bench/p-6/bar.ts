/** P-6: what the tool gate costs for each call, on a real record with ledger and audit, over HTTP and over a pipe. */
import { Agent } from "node:http";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startMcpServer, stdioServerCommand } from "@signalbox/testkit";
import type { Bar, BarResult, BenchOptions } from "../bar.ts";
import { startGateProcess, type GateProcess } from "../gates/gate-process.ts";
import { MeasuredProcess } from "../gates/measured-process.ts";
import { inLanes, LANES } from "../gates/side-by-side.ts";
import { median, ms, percentile, rounded } from "../statistics.ts";
import { decisionTimes } from "./policy.ts";
import { askOf, callOnce, INPUT, WAYS, type Way } from "./ways.ts";

const CALL_MS = 0.9;
const DECISION_US = 50;
const DECISIONS = 40_000;
const ROUNDS = 9;
const CALLS_PER_ROUND = 100;
const WARM_UP_CALLS = 300;
export const toolGateCost: Bar = {
  id: "P-6",
  title: "CPU of the tool gate, for each call",
  cases: ["policy", "relay", "direct", ...WAYS.map(({ id }) => id)].map((name) => `P-6/${name}`),
  measure,
};

async function* measure(options: BenchOptions): AsyncGenerator<BarResult> {
  if (options.wants("P-6/policy")) yield measurePolicy(options);
  if (!["relay", "direct", ...WAYS.map(({ id }) => id)].some((name) => options.wants(`P-6/${name}`))) return;
  options.say("starting tool servers, a database and the gates");
  const folder = mkdtempSync(join(tmpdir(), "sbx-bench-tools-"));
  await using stack = new AsyncDisposableStack();
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  const neighbour = stack.use(await startMcpServer({ tools: { echo: { result: "an ordinary answer" } } }));
  const tools = { echo: { effect: "read" } };
  const gates = stack.use(
    await startGateProcess({
      modelUrl: "http://127.0.0.1:9",
      toolServers: {
        http: { transport: "http", url: neighbour.url, headers: {}, tools },
        stdio: { transport: "stdio", ...stdioServerCommand({ callsFile: join(folder, "calls") }), env: {}, tools },
      },
    }),
  );
  const relay = stack.use(await MeasuredProcess.start("./relay-main.ts", { BENCH_UPSTREAM_URL: neighbour.url }));
  const relayed = await measureRelay(relay, options);
  yield relayed;
  const direct = await measureDirect(neighbour.url, options);
  yield direct;
  for (const way of WAYS.filter(({ id }) => options.wants(`P-6/${id}`))) {
    yield await measureWay(way, { gates, options, relayMs: relayed.value, directMs: direct.value });
  }
}

/** The policy alone: nothing is read and nothing recorded. */
function measurePolicy({ smoke }: BenchOptions): BarResult {
  const count = smoke ? 400 : DECISIONS;
  const times = decisionTimes(count, () => performance.now());
  const value = percentile(times, 0.99);
  return {
    id: "P-6/policy",
    value: rounded(value),
    unit: "µs p99",
    bar: DECISION_US,
    holds: value <= DECISION_US,
    n: times.length,
    note: `one decision at 500 rules, in a run that has read 16 KB and made 40 calls; p50 ${median(times).toFixed(1)} µs`,
  };
}

interface Measured {
  readonly gates: GateProcess;
  readonly options: BenchOptions;
  /** CPU of a bare relay for the same call, measured just before. */
  readonly relayMs: number;
  /** How long the same call takes at its server, median. */
  readonly directMs: number;
}

async function measureWay(way: Way, { gates, options, relayMs, directMs }: Measured): Promise<BarResult> {
  const rounds = options.runCount ?? ROUNDS;
  const { name, isProposed } = way;
  const round = { name, isProposed, call: askOf(way, gates) };
  await run(gates, { ...round, count: options.warmUpCount ?? WARM_UP_CALLS });
  const spent: number[] = [];
  const took: number[] = [];
  const database: number[] = [];
  for (let at = 0; at < rounds; at += 1) {
    const { cpuMs, databaseMs, tookMs } = await run(gates, { ...round, count: CALLS_PER_ROUND });
    spent.push(cpuMs);
    took.push(...tookMs);
    database.push(databaseMs);
  }
  const value = median(spent);
  const parts = [
    `${way.says}: whole process, ${LANES} calls at once, judged by the shipped policy, pin checked, intent and outcome committed with audit`,
    `${Math.round(1_000 / value)} calls/s per core`,
    `PostgreSQL beside it ${median(database).toFixed(2)} ms CPU`,
    `latency p50 ${ms(median(took))}, p99 ${ms(percentile(took, 0.99))} (direct p50 ${ms(directMs)})`,
    `${(value / relayMs).toFixed(1)} × a bare relay`,
  ];
  return {
    id: `P-6/${way.id}`,
    value: rounded(value),
    unit: "ms CPU",
    bar: CALL_MS,
    holds: value <= CALL_MS,
    n: rounds * CALLS_PER_ROUND,
    note: parts.join("; "),
  };
}

interface Round {
  readonly name: string;
  readonly isProposed: boolean;
  readonly count: number;
  readonly call: (agent: Agent, id: string) => Promise<number>;
}

/** CPU for each call of one round and how long each took, the proposals made beforehand. */
async function run(
  gates: GateProcess,
  { name, isProposed, count, call }: Round,
): Promise<{ readonly cpuMs: number; readonly databaseMs: number; readonly tookMs: readonly number[] }> {
  const ids = Array.from({ length: count }, () => `toolu_${crypto.randomUUID()}`);
  if (isProposed) await gates.propose({ name, input: INPUT, ids });
  const agent = new Agent({ keepAlive: true });
  const tookMs: number[] = [];
  const before = await gates.cpuMs();
  const databaseBefore = gates.databaseCpuMs();
  await inLanes(ids, async (id) => {
    tookMs.push(await call(agent, id));
  });
  const cpuMs = ((await gates.cpuMs()) - before) / count;
  const databaseMs = (gates.databaseCpuMs() - databaseBefore) / count;
  agent.destroy();
  return { cpuMs, databaseMs, tookMs };
}

/** The same call to its server, without anything between. */
async function measureDirect(url: string, options: BenchOptions): Promise<BarResult> {
  const rounds = options.runCount ?? ROUNDS;
  const agent = new Agent({ keepAlive: true });
  const tookMs: number[] = [];
  await inLanes(Array.from({ length: rounds * CALLS_PER_ROUND }), async () => {
    tookMs.push(await callOnce({ url, bearer: "", name: "echo", id: null, isModern: true, agent }));
  });
  agent.destroy();
  const value = median(tookMs);
  const note = `to the same server without a gate, ${LANES} at once, for comparison; p99 ${ms(percentile(tookMs, 0.99))}`;
  return { id: "P-6/direct", value: rounded(value), unit: "ms p50", bar: null, holds: null, n: tookMs.length, note };
}

/** The same call through a process that only relays: what this machine, as busy as it is, asks for the carrying alone. */
async function measureRelay(relay: MeasuredProcess, options: BenchOptions): Promise<BarResult> {
  const rounds = options.runCount ?? ROUNDS;
  const agent = new Agent({ keepAlive: true });
  const round = async (count: number): Promise<number> => {
    const before = await relay.cpuMs();
    await inLanes(Array.from({ length: count }), () =>
      callOnce({ url: String(relay.up.url), bearer: "", name: "echo", id: null, isModern: true, agent }).then(
        () => undefined,
      ),
    );
    return ((await relay.cpuMs()) - before) / count;
  };
  await round(options.warmUpCount ?? WARM_UP_CALLS);
  const spent: number[] = [];
  for (let at = 0; at < rounds; at += 1) spent.push(await round(CALLS_PER_ROUND));
  agent.destroy();
  const value = median(spent);
  return {
    id: "P-6/relay",
    value: rounded(value),
    unit: "ms CPU",
    bar: null,
    holds: null,
    n: rounds * CALLS_PER_ROUND,
    note: "a bare HTTP relay of ours on the same call, for comparison; 0.45 on a quiet machine",
  };
}
