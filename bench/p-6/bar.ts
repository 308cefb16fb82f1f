/** P-6: what the tool gate costs for each call, on a real record with ledger and audit, over HTTP and over a pipe. */
import { Agent, request } from "node:http";
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

const CALL_MS = 0.9;
const DECISION_US = 50;
const DECISIONS = 40_000;
const ROUNDS = 9;
const CALLS_PER_ROUND = 100;
const WARM_UP_CALLS = 300;
const INPUT = { text: "the arguments of an ordinary call" };
const META = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "bench", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};
const WAYS = ["http", "stdio"] as const;

export const toolGateCost: Bar = {
  id: "P-6",
  title: "CPU of the tool gate, for each call",
  cases: ["policy", "relay", ...WAYS].map((way) => `P-6/${way}`),
  measure,
};

async function* measure(options: BenchOptions): AsyncGenerator<BarResult> {
  if (options.wants("P-6/policy")) yield measurePolicy(options);
  if (!["relay", ...WAYS].some((way) => options.wants(`P-6/${way}`))) return;
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
  for (const way of WAYS.filter((each) => options.wants(`P-6/${each}`))) {
    yield await measureWay(way, { gates, options, relayMs: relayed.value });
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
}

async function measureWay(way: (typeof WAYS)[number], { gates, options, relayMs }: Measured): Promise<BarResult> {
  const rounds = options.runCount ?? ROUNDS;
  const name = `${way}__echo`;
  const call = async (agent: Agent, id: string): Promise<void> => {
    await callOnce({ url: `${gates.url}/mcp/units/default`, token: gates.token, name, id, agent });
  };
  await run(gates, { name, count: options.warmUpCount ?? WARM_UP_CALLS, call });
  const spent: number[] = [];
  const walls: number[] = [];
  const database: number[] = [];
  for (let round = 0; round < rounds; round += 1) {
    const databaseBefore = gates.databaseCpuMs();
    const { cpuMs, wallMs } = await run(gates, { name, count: CALLS_PER_ROUND, call });
    spent.push(cpuMs);
    walls.push(wallMs);
    database.push((gates.databaseCpuMs() - databaseBefore) / CALLS_PER_ROUND);
  }
  const value = median(spent);
  const beside = `PostgreSQL beside it ${median(database).toFixed(2)} ms CPU; wall ${ms(median(walls))}; ${(value / relayMs).toFixed(1)} × a bare relay`;
  return {
    id: `P-6/${way}`,
    value: rounded(value),
    unit: "ms CPU",
    bar: CALL_MS,
    holds: value <= CALL_MS,
    n: rounds * CALLS_PER_ROUND,
    note: `whole process, ${LANES} calls at once: judged, pinned definition checked, intent and outcome committed with audit; ${beside}`,
  };
}

interface Round {
  readonly name: string;
  readonly count: number;
  readonly call: (agent: Agent, id: string) => Promise<void>;
}

/** Means over one round, the proposals made beforehand. */
async function run(
  gates: GateProcess,
  { name, count, call }: Round,
): Promise<{ readonly cpuMs: number; readonly wallMs: number }> {
  const ids = Array.from({ length: count }, () => `toolu_${crypto.randomUUID()}`);
  await gates.propose({ name, input: INPUT, ids });
  const agent = new Agent({ keepAlive: true });
  const before = await gates.cpuMs();
  const startedAtMs = performance.now();
  await inLanes(ids, (id) => call(agent, id));
  const wallMs = (performance.now() - startedAtMs) / count;
  const cpuMs = ((await gates.cpuMs()) - before) / count;
  agent.destroy();
  return { cpuMs, wallMs };
}

/** The same call through a process that only relays: what this machine, as busy as it is, asks for the carrying alone. */
async function measureRelay(relay: MeasuredProcess, options: BenchOptions): Promise<BarResult> {
  const rounds = options.runCount ?? ROUNDS;
  const agent = new Agent({ keepAlive: true });
  const round = async (count: number): Promise<number> => {
    const before = await relay.cpuMs();
    await inLanes(Array.from({ length: count }), () =>
      callOnce({ url: String(relay.up.url), token: "", name: "echo", id: null, agent }),
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

interface OneCall {
  readonly url: string;
  readonly token: string;
  readonly name: string;
  readonly id: string | null;
  readonly agent: Agent;
}

function callOnce({ url, token, name, id, agent }: OneCall): Promise<void> {
  const _meta = id === null ? META : { ...META, "claudecode/toolUseId": id };
  const body = JSON.stringify({
    jsonrpc: "2.0",
    id: 1,
    method: "tools/call",
    params: { name, arguments: INPUT, _meta },
  });
  const headers = {
    authorization: `Bearer ${token}`,
    accept: "application/json, text/event-stream",
    "content-type": "application/json",
    "content-length": Buffer.byteLength(body),
    "mcp-method": "tools/call",
    "mcp-name": name,
    "mcp-protocol-version": "2026-07-28",
  };
  return new Promise((resolve, reject) => {
    const asked = request(url, { method: "POST", agent, headers }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (piece: string) => (text += piece));
      response.on("end", () => {
        const answered = text.includes('"content"') && !text.includes('"isError":true');
        if (answered) resolve();
        else reject(new Error(`the call ended with ${text.slice(0, 200)}`));
      });
    });
    asked.on("error", reject);
    asked.end(body);
  });
}
