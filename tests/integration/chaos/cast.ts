/**
 * Who takes part: two APIs, two gates, two supervisors, four workers, one embedded database and the simulated model, each
 * a process that may be killed, frozen or restarted at any moment. What is restarted comes back at its old address.
 */
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Signalbox } from "@signalbox/client";
import { startSimProcess, stdioServerCommand, type SimProcess } from "@signalbox/testkit";
import pg from "pg";
import { openDatabase } from "../../../packages/server/src/database/open-database.ts";
import type { EmbeddedDatabase } from "../../../packages/server/src/database/embedded-database.ts";
import {
  issueKey,
  platformFacts,
  serve,
  startWorkerProcess,
  type PlatformFacts,
  type RealProcess,
} from "../../setup/real-processes.ts";
import { until } from "../../setup/until.ts";

export const AGENT = "chaos";
const RUNTIME = "langgraph";
const WORKERS_PER_SUPERVISOR = 2;
const OFFERED_MS = 90_000;

/** One process and how it comes back. */
export interface Member {
  readonly name: string;
  process: RealProcess;
  readonly restart: () => Promise<RealProcess>;
}

export interface Cast extends AsyncDisposable {
  readonly members: readonly Member[];
  /** One client per API. */
  readonly clients: readonly Signalbox[];
  readonly callsFile: string;
  query<Row extends object>(text: string, values?: readonly unknown[]): Promise<readonly Row[]>;
  /** Kills the database server, unless it is still away; it is started again within seconds. */
  crashDatabase(): void;
}

export async function gather(): Promise<Cast> {
  await using starting = new AsyncDisposableStack();
  const folder = mkdtempSync(join(tmpdir(), "chaos-"));
  starting.defer(() => rmSync(folder, { recursive: true, force: true }));
  const database = starting.use(await embedded(join(folder, "data")));
  const sim: SimProcess = starting.use(await startSimProcess(["--ids", "unique", "--port", "0"]));
  const callsFile = join(folder, "calls.jsonl");
  const facts = starting.use(
    platformFacts({
      databaseUrl: database.connectionString,
      simUrl: sim.url,
      toolServers: {
        ledger: {
          transport: "stdio",
          ...stdioServerCommand({ callsFile, name: "ledger" }),
          tools: { count: { effect: "write" }, echo: { effect: "read" } },
        },
      },
    }),
  );
  const members: Member[] = [];
  starting.defer(async () => {
    await Promise.all(members.map((member) => member.process[Symbol.asyncDispose]()));
  });
  const clients = await admit(facts, members);
  await offerWork(clients);
  const running = starting.move();
  return {
    members,
    clients,
    callsFile,
    query: (text, values) => query(database, text, values),
    crashDatabase: () => crash(database.serverPid),
    [Symbol.asyncDispose]: () => running.disposeAsync(),
  };
}

async function embedded(dataDir: string): Promise<EmbeddedDatabase> {
  const database = await openDatabase({ dataDir });
  if (database.kind !== "embedded") throw new Error("chaos runs on a database that it may kill");
  return database;
}

function crash(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch (thrown) {
    // On a busy machine the one that was killed before may not have been followed yet.
    if (!(thrown instanceof Error && "code" in thrown && thrown.code === "ESRCH")) throw thrown;
  }
}

async function admit(facts: PlatformFacts, members: Member[]): Promise<readonly Signalbox[]> {
  const gatesUrls: string[] = [];
  for (const name of ["gates-1", "gates-2"]) {
    gatesUrls.push((await place(facts, members, { name, role: "gates" })).gatesUrl);
  }
  for (const [index, gatesUrl] of gatesUrls.entries()) {
    const name = `supervisor-${index + 1}`;
    const environment = { SIGNALBOX_GATES_URL: gatesUrl };
    const supervisor = await place(facts, members, { name, role: "supervisor", environment });
    for (let count = 1; count <= WORKERS_PER_SUPERVISOR; count += 1) {
      const start = (): RealProcess => startWorkerProcess(facts, { gatesUrl: supervisor.gatesUrl, runtime: RUNTIME });
      members.push({
        name: `worker-${index + 1}-${count}`,
        process: start(),
        restart: () => Promise.resolve(start()),
      });
    }
  }
  const apiKey = await issueKey(facts);
  const clients: Signalbox[] = [];
  for (const name of ["api-1", "api-2"]) {
    const { url } = await place(facts, members, { name, role: "api" });
    clients.push(new Signalbox({ url, apiKey }));
  }
  return clients;
}

interface Place {
  readonly name: string;
  readonly role: string;
  readonly environment?: Readonly<Record<string, string>>;
}

async function place(facts: PlatformFacts, members: Member[], { name, role, environment = {} }: Place) {
  const first = await serve(facts, { role, environment });
  const ports = {
    ...(first.url === "" ? {} : { port: Number(new URL(first.url).port) }),
    ...(first.gatesUrl === "" ? {} : { gatesPort: Number(new URL(first.gatesUrl).port) }),
  };
  const restart = async (): Promise<RealProcess> => (await serve(facts, { role, environment, ...ports })).process;
  members.push({ name, process: first.process, restart });
  return first;
}

async function offerWork(clients: readonly Signalbox[]): Promise<void> {
  for (const client of clients) {
    await until(
      "workers",
      async () => (await client.runtimes()).some((each) => each.name === RUNTIME && each.available),
      OFFERED_MS,
    );
  }
  const tools = ["ledger/count", "ledger/echo"];
  await clients[0]?.agents.create({
    name: AGENT,
    runtime: RUNTIME,
    model: "sim/extractive-1",
    instructions: "Answer.",
    tools,
  });
}

async function query<Row extends object>(
  database: EmbeddedDatabase,
  text: string,
  values: readonly unknown[] = [],
): Promise<readonly Row[]> {
  const client = new pg.Client({ ...database.pgConfig, application_name: `chaos-${randomBytes(2).toString("hex")}` });
  // The storm kills the database under it, too; whoever asked hears of it by the query.
  client.on("error", () => undefined);
  await client.connect();
  try {
    return (await client.query<Row>(text, [...values])).rows;
  } finally {
    await client.end().catch(() => undefined);
  }
}
