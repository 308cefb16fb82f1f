/** A platform of real processes over a database and a simulated model of its own, for one test. */
import { Signalbox, type ConversationHandle } from "@signalbox/client";
import { startSim, type Sim, type SimOptions } from "@signalbox/testkit";
import pg from "pg";
import { cloneDatabase, type ClonedDatabase } from "../../setup/clone-database.ts";
import {
  issueKey,
  platformFacts,
  serve,
  startScriptedWorker,
  startWorkerProcess,
  type RealProcess,
  type Served,
} from "../../setup/real-processes.ts";
import { until } from "../../setup/until.ts";

export interface Stage {
  readonly served: Served;
  readonly client: Signalbox;
  readonly apiKey: string;
  readonly sim: Sim;
  /** The platform once more, at the same address. */
  restart(): Promise<Served>;
  worker(runtime: string): RealProcess;
  /** A worker whose engine plays what messages say. */
  scriptedWorker(): RealProcess;
  readonly database: ClonedDatabase;
}

/** Everything it starts ends with `stack`. */
export async function setStage(
  stack: AsyncDisposableStack,
  options: {
    readonly toolServers?: Readonly<Record<string, unknown>>;
    readonly sim?: SimOptions;
    readonly environment?: Readonly<Record<string, string>>;
  } = {},
): Promise<Stage> {
  const database = stack.use(await cloneDatabase());
  const sim = stack.use(await startSim({ ids: "unique", ...options.sim }));
  const facts = stack.use(platformFacts({ databaseUrl: database.url, simUrl: sim.url, ...options }));
  const apiKey = await issueKey(facts);
  const served = await serve(facts);
  stack.use(served.process);
  const portOf = (url: string): number => Number(new URL(url).port);
  return {
    served,
    database,
    client: new Signalbox({ url: served.url, apiKey }),
    apiKey,
    sim,
    async restart() {
      const again = await serve(facts, { port: portOf(served.url), gatesPort: portOf(served.gatesUrl) });
      stack.use(again.process);
      return again;
    },
    worker: (runtime) => stack.use(startWorkerProcess(facts, { gatesUrl: served.gatesUrl, runtime })),
    scriptedWorker: () => stack.use(startScriptedWorker(facts, served.gatesUrl)),
  };
}

/** A conversation with a new agent, once a worker offers its runtime. */
export async function conversationWith(
  client: Signalbox,
  runtime: string,
  tools: readonly string[] = [],
): Promise<ConversationHandle> {
  await until(
    `a worker with ${runtime}`,
    async () => (await client.runtimes()).some((each) => each.name === runtime && each.available),
    30_000,
  );
  const name = `agent-${runtime.replace("_", "-")}`;
  const agent = { name, runtime, model: "sim/extractive-1", instructions: "Answer.", tools: [...tools] };
  await client.agents.get(name).catch(() => client.agents.create(agent));
  return client.conversations.create({ agent: name });
}

export async function patchAgent(stage: Stage, name: string, change: object): Promise<void> {
  const response = await fetch(`${stage.served.url}/v1/agents/${name}`, {
    method: "PATCH",
    headers: { authorization: `Bearer ${stage.apiKey}`, "content-type": "application/json" },
    body: JSON.stringify(change),
  });
  if (!response.ok) throw new Error(`the agent was not changed: ${await response.text()}`);
}

/** Rows as the superuser sees them, or a change behind the platform's back. */
export async function rowsOf<Row extends pg.QueryResultRow>(
  { database }: Stage,
  text: string,
  values: unknown[] = [],
): Promise<readonly Row[]> {
  const client = new pg.Client(database.config);
  await client.connect();
  try {
    return (await client.query<Row>(text, values)).rows;
  } finally {
    await client.end();
  }
}

/** Facts of the audit's entries with this action, oldest first. */
export async function auditOf(
  stage: Stage,
  action: string,
): Promise<readonly { readonly facts: Readonly<Record<string, unknown>> }[]> {
  const text = "select bytes from signalbox.audit_pending where action = $1 order by id";
  const rows = await rowsOf<{ bytes: Buffer }>(stage, text, [action]);
  // What the platform wrote; the tests look into it.
  return rows.map(({ bytes }) => JSON.parse(bytes.toString("utf8")) as { facts: Record<string, unknown> });
}
