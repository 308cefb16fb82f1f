/**
 * What every bar is measured on: the model double, an embedded database as it comes (fsync on), the platform and one
 * worker for each runtime, all as processes of their own from their builds.
 */
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Signalbox } from "@signalbox/client";
import { startSimProcess, type SimProcess } from "@signalbox/testkit";
import { openDatabase } from "../../packages/server/src/database/open-database.ts";
import {
  issueKey,
  platformFacts,
  serve,
  startWorkerProcess,
  type RealProcess,
} from "../../tests/setup/real-processes.ts";
import { until } from "../../tests/setup/until.ts";
import { cpuMsOf, postgresPids } from "./cpu.ts";

const RUNTIME_WAIT_MS = 60_000;
const MODEL = "sim/bench";
const INSTRUCTIONS = "Answer.";
const MAX_OUTPUT_TOKENS = 8_192;

export interface Stage extends AsyncDisposable {
  readonly double: SimProcess;
  readonly url: string;
  readonly apiKey: string;
  readonly client: Signalbox;
  readonly databaseUrl: string;
  /** Standard error of the database server. */
  readonly databaseLog: string;
  /** The platform and its workers. */
  readonly pids: readonly number[];
  readonly platformPid: number;
  /** Ends every worker and waits until the platform knows of none. */
  stopWorkers(): Promise<void>;
  /** One more worker, once the platform knows of it. */
  startWorker(runtime: string): Promise<void>;
  /** CPU time of every process of the database so far. */
  databaseCpuMs(): number;
  /** An agent on `runtime`, made when it is first asked for. */
  agent(runtime: string): Promise<string>;
  newConversation(runtime: string): Promise<string>;
}

export interface StageOptions {
  /** Steps a worker takes at once; its own default unless said otherwise. */
  readonly room?: number;
  /** As on the command line of the double. */
  readonly double?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
}

export async function openStage(runtimes: readonly string[], options: StageOptions = {}): Promise<Stage> {
  await using stack = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), "sbx-bench-"));
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  // A database server that drops root must be able to walk through.
  chmodSync(folder, 0o755);
  const database = stack.use(await openDatabase({ dataDir: join(folder, "data") }));
  const databaseUrl = urlOf(database.pgConfig);
  const double = stack.use(await startSimProcess(options.double));
  const facts = stack.use(platformFacts({ databaseUrl, simUrl: double.url, environment: options.environment ?? {} }));
  const apiKey = await issueKey(facts);
  const served = await serve(facts);
  const platform = stack.use(served.process);
  const crew = stack.use(new AsyncDisposableStack());
  const workers: RealProcess[] = [];
  const startOne = (runtime: string): void => {
    const words = roomWords(options);
    workers.push(crew.use(startWorkerProcess(facts, { gatesUrl: served.gatesUrl, runtime, words })));
  };
  for (const runtime of runtimes) startOne(runtime);
  const client = new Signalbox({ url: served.url, apiKey });
  await until("every runtime", () => allAvailable(client, runtimes), RUNTIME_WAIT_MS);
  const agents = new Map<string, Promise<string>>();
  const agent = (runtime: string): Promise<string> => {
    const made = agents.get(runtime) ?? makeAgent(client, runtime);
    agents.set(runtime, made);
    return made;
  };
  const running = stack.move();
  return {
    double,
    url: served.url,
    apiKey,
    client,
    databaseUrl,
    databaseLog: join(folder, "data", "postgres.run", "postgres.log"),
    get pids() {
      return [platform, ...workers].flatMap(({ child }) => (child.pid === undefined ? [] : [child.pid]));
    },
    async stopWorkers() {
      await Promise.all(workers.splice(0).map((worker) => worker.kill("SIGTERM")));
      await until("no worker", async () => (await client.runtimes()).every((each) => !each.available), RUNTIME_WAIT_MS);
    },
    async startWorker(runtime) {
      startOne(runtime);
      await until("the worker", () => allAvailable(client, [runtime]), RUNTIME_WAIT_MS);
    },
    platformPid: platform.child.pid ?? 0,
    databaseCpuMs: () => cpuMsOf(postgresPids(folder)),
    agent,
    newConversation: async (runtime) => (await client.conversations.create({ agent: await agent(runtime) })).id,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

function roomWords({ room }: StageOptions): readonly string[] {
  return room === undefined ? [] : ["--room", String(room)];
}

async function makeAgent(client: Signalbox, runtime: string): Promise<string> {
  const name = `bench-${runtime.replaceAll("_", "-")}`;
  await client.agents.create({
    name,
    runtime,
    model: MODEL,
    instructions: INSTRUCTIONS,
    maxOutputTokens: MAX_OUTPUT_TOKENS,
  });
  return name;
}

async function allAvailable(client: Signalbox, runtimes: readonly string[]): Promise<boolean> {
  const known = await client.runtimes();
  return runtimes.every((name) => known.some((each) => each.name === name && each.available));
}

function urlOf(config: Awaited<ReturnType<typeof openDatabase>>["pgConfig"]): string {
  if ("connectionString" in config) return config.connectionString;
  const { host, port, user, database } = config;
  return `postgresql:///${database}?host=${encodeURIComponent(host)}&port=${port}&user=${user}`;
}

/** What a bare engine is told, so that it asks the model what the platform asks. */
export function bareEnvironment(stage: Stage): Readonly<Record<string, string>> {
  return {
    BARE_MODEL_URL: stage.double.url,
    BARE_MODEL: MODEL,
    BARE_INSTRUCTIONS: INSTRUCTIONS,
    BARE_MAX_TOKENS: String(MAX_OUTPUT_TOKENS),
  };
}
