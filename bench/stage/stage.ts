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
import { issueKey, platformFacts, serve, startWorkerProcess } from "../../tests/setup/real-processes.ts";
import { until } from "../../tests/setup/until.ts";

const RUNTIME_WAIT_MS = 60_000;
export const MODEL = "sim/bench";
export const INSTRUCTIONS = "Answer.";
export const MAX_OUTPUT_TOKENS = 8_192;

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
  /** An agent on `runtime`, made when it is first asked for. */
  agent(runtime: string): Promise<string>;
  newConversation(runtime: string): Promise<string>;
}

export async function openStage(runtimes: readonly string[]): Promise<Stage> {
  await using stack = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), "sbx-bench-"));
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  // A database server that drops root must be able to walk through.
  chmodSync(folder, 0o755);
  const database = stack.use(await openDatabase({ dataDir: join(folder, "data") }));
  const databaseUrl = urlOf(database.pgConfig);
  const double = stack.use(await startSimProcess());
  const facts = stack.use(platformFacts({ databaseUrl, simUrl: double.url }));
  const apiKey = await issueKey(facts);
  const served = await serve(facts);
  const platform = stack.use(served.process);
  const workers = runtimes.map((runtime) =>
    stack.use(startWorkerProcess(facts, { gatesUrl: served.gatesUrl, runtime })),
  );
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
    pids: [platform, ...workers].flatMap(({ child }) => (child.pid === undefined ? [] : [child.pid])),
    agent,
    newConversation: async (runtime) => (await client.conversations.create({ agent: await agent(runtime) })).id,
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
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
