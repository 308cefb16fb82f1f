/** Several platform processes on one database, and the load that they share. */
import { Signalbox, type ConversationHandle } from "@signalbox/client";
import { startSim } from "@signalbox/testkit";
import pg, { type Client } from "pg";
import { cloneDatabase, type ClonedDatabase } from "../../setup/clone-database.ts";
import {
  issueKey,
  platformFacts,
  serve,
  startWorkerProcess,
  type PlatformFacts,
  type ServeOptions,
  type Served,
} from "../../setup/real-processes.ts";
import { until } from "../../setup/until.ts";

const AGENT = "answerer";
/** Loading engines takes a loaded machine its time. */
const OFFERED_MS = 90_000;
const ANSWERED_MS = 120_000;

export interface Neighbourhood {
  readonly facts: PlatformFacts;
  readonly apiKey: string;
  readonly database: Client;
  readonly cloned: ClonedDatabase;
  readonly sim: Awaited<ReturnType<typeof startSim>>;
  /** Another process of the platform. */
  node(options?: ServeOptions): Promise<Served>;
  worker(gatesUrl: string, binary?: string): void;
  client(url: string, apiKey?: string): Signalbox;
}

/** Everything it starts ends with `stack`. */
export async function setNeighbourhood(stack: AsyncDisposableStack, template?: string): Promise<Neighbourhood> {
  const cloned = stack.use(await cloneDatabase(template));
  const database = new pg.Client(cloned.config);
  await database.connect();
  stack.defer(() => database.end());
  const sim = stack.use(await startSim({ ids: "unique" }));
  const facts = stack.use(platformFacts({ databaseUrl: cloned.url, simUrl: sim.url }));
  const apiKey = template === undefined ? await issueKey(facts) : "";
  return {
    facts,
    apiKey,
    database,
    cloned,
    sim,
    async node(options = {}) {
      const served = await serve(facts, options);
      stack.use(served.process);
      return served;
    },
    worker: (gatesUrl, binary) =>
      void stack.use(
        startWorkerProcess(facts, { gatesUrl, runtime: "langgraph", ...(binary === undefined ? {} : { binary }) }),
      ),
    client: (url, key = apiKey) => new Signalbox({ url, apiKey: key }),
  };
}

/** Makes the agent that every conversation of a test talks to, once a worker is known where it is made. */
export async function makeAgent(client: Signalbox): Promise<void> {
  await untilOffered(client);
  await client.agents.create({
    name: AGENT,
    runtime: "langgraph",
    model: "sim/extractive-1",
    instructions: "Answer.",
    tools: [],
  });
}

export async function untilOffered(client: Signalbox, workerCount = 1): Promise<void> {
  await until(
    `${workerCount} workers`,
    async () => (await client.runtimes()).some((each) => each.available && each.workers >= workerCount),
    OFFERED_MS,
  );
}

export interface Sent {
  readonly conversationId: string;
  readonly runId: string;
}

/** One message in each of `count` new conversations; resolves when all are acknowledged. */
export async function sendEach(client: Signalbox, count: number, content: string): Promise<readonly Sent[]> {
  return await Promise.all(
    Array.from({ length: count }, async () => {
      const conversation: ConversationHandle = await client.conversations.create({ agent: AGENT });
      const run = await conversation.send(content);
      return { conversationId: conversation.id, runId: run.id };
    }),
  );
}

interface Ending {
  readonly id: string;
  readonly state: string;
  readonly reason: string | null;
}

/** How each run ended; waits until all have. */
export async function endingsOf(database: Client, sent: readonly Sent[]): Promise<readonly Ending[]> {
  return await until(
    "the end of every run",
    async () => {
      const { rows } = await database.query<Ending>(
        `select id, state, reason from signalbox.run where id = any ($1)
         and state in ('completed', 'cancelled', 'failed', 'rolled_back')`,
        [sent.map((each) => each.runId)],
      );
      return rows.length === sent.length ? rows : null;
    },
    ANSWERED_MS,
  );
}

/** How often each process began a run, or took one over. */
export async function startsByProcess(database: Client): Promise<ReadonlyMap<string, number>> {
  const { rows } = await database.query<{ process: string; count: number }>(
    `select convert_from(bytes, 'UTF8')::json #>> '{facts,process}' as process, count(*)::int as count
     from signalbox.audit_pending where action in ('run_started', 'run_recovered') group by 1`,
  );
  return new Map(rows.map(({ process, count }) => [process, count]));
}
