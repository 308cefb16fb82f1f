/** P-5: from the death of an owner to the committed new generation, judged by the database's own clock. */
import { setTimeout as pause } from "node:timers/promises";
import { chmodSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Signalbox } from "@signalbox/client";
import { startSimProcess } from "@signalbox/testkit";
import pg from "pg";
import { openDatabase } from "../../packages/server/src/database/open-database.ts";
import {
  issueKey,
  platformFacts,
  serve,
  startWorkerProcess,
  type RealProcess,
  type Served,
} from "../../tests/setup/real-processes.ts";
import { until } from "../../tests/setup/until.ts";
import type { Bar, BarResult, BenchOptions } from "../bar.ts";
import { median, ms, percentile, rounded } from "../statistics.ts";

const ROUND_COUNT = 20;
const HANG_ROUND_COUNT = 2;
const RUNS_PER_ROUND = 6;
const LEASE_MS = 10_000;
const KILLED_MS = 1_000;
const WAIT_MS = 60_000;
const LONG = "[[sim:tokens 250]] [[sim:slow 100]] Tell me everything.";

export const takeover: Bar = {
  id: "P-5",
  title: "Takeover, from the death of the owner to the committed new generation",
  cases: ["P-5/killed", "P-5/hung"],
  measure,
};

async function* measure(options: BenchOptions): AsyncGenerator<BarResult> {
  await using stack = new AsyncDisposableStack();
  const place = await setPlace(stack);
  if (options.wants("P-5/killed")) {
    const times = await rounds(place, options, { signal: "SIGKILL", count: options.runCount ?? ROUND_COUNT });
    yield resultOf("P-5/killed", times, KILLED_MS);
  }
  if (options.wants("P-5/hung")) {
    const times = await rounds(place, options, { signal: "SIGSTOP", count: options.runCount ?? HANG_ROUND_COUNT });
    yield resultOf("P-5/hung", times, LEASE_MS + KILLED_MS);
  }
}

function resultOf(id: string, times: readonly number[], bar: number): BarResult {
  const value = rounded(percentile(times, 0.99));
  return {
    id,
    value,
    unit: "ms p99",
    bar,
    holds: value <= bar,
    n: times.length,
    note:
      `p50 ${ms(median(times))}, longest ${ms(Math.max(...times))}; from the signal to the event run.recovered, ` +
      `${times.length / RUNS_PER_ROUND} owners with ${RUNS_PER_ROUND} runs each, a second platform with room`,
  };
}

interface Victim {
  readonly served: Served;
  readonly worker: RealProcess;
}

interface Place {
  readonly database: pg.Client;
  readonly victim: () => Promise<Victim>;
  readonly client: (url: string) => Signalbox;
  readonly heir: Signalbox;
}

async function setPlace(stack: AsyncDisposableStack): Promise<Place> {
  const folder = mkdtempSync(join(tmpdir(), "sbx-bench-takeover-"));
  stack.defer(() => rmSync(folder, { recursive: true, force: true }));
  chmodSync(folder, 0o755);
  const embedded = stack.use(await openDatabase({ dataDir: join(folder, "data") }));
  if (embedded.kind !== "embedded") throw new Error("the takeover is measured on an embedded database");
  const double = stack.use(await startSimProcess(["--ids", "unique"]));
  const facts = stack.use(platformFacts({ databaseUrl: embedded.connectionString, simUrl: double.url }));
  const apiKey = await issueKey(facts);
  const client = (url: string): Signalbox => new Signalbox({ url, apiKey });
  const heir = await serve(facts);
  stack.use(heir.process);
  stack.use(startWorkerProcess(facts, { gatesUrl: heir.gatesUrl, runtime: "langgraph" }));
  await offered(client(heir.url), 1);
  await client(heir.url).agents.create({
    name: "bench",
    runtime: "langgraph",
    model: "sim/bench",
    instructions: "Answer.",
  });
  const database = new pg.Client(embedded.pgConfig);
  await database.connect();
  stack.defer(() => database.end());
  // For one lease after a start of the database nobody is judged by presence: that is a rule, and not a slow takeover.
  await until(
    "the database to be up for longer than a lease",
    async () => {
      const up = await database.query<{ readonly long: boolean }>(
        "select clock_timestamp() - pg_postmaster_start_time() > make_interval(secs => $1) as long",
        [(LEASE_MS + 1_000) / 1_000],
      );
      return up.rows[0]?.long === true;
    },
    WAIT_MS,
  );
  return {
    database,
    client,
    heir: client(heir.url),
    async victim() {
      const served = await serve(facts);
      stack.use(served.process);
      const worker = stack.use(startWorkerProcess(facts, { gatesUrl: served.gatesUrl, runtime: "langgraph" }));
      await offered(client(served.url), 2);
      return { served, worker };
    },
  };
}

async function offered(client: Signalbox, workerCount: number): Promise<void> {
  await until(
    `${workerCount} workers`,
    async () => (await client.runtimes()).some((each) => each.available && each.workers >= workerCount),
    WAIT_MS,
  );
}

async function rounds(
  place: Place,
  { say, interrupted }: BenchOptions,
  { signal, count }: { readonly signal: "SIGKILL" | "SIGSTOP"; readonly count: number },
): Promise<readonly number[]> {
  const times: number[] = [];
  for (let round = 1; round <= count; round += 1) {
    interrupted.throwIfAborted();
    const { served, worker } = await place.victim();
    const client = place.client(served.url);
    const runs = await Promise.all(
      Array.from({ length: RUNS_PER_ROUND }, async () => {
        const conversation = await client.conversations.create({ agent: "bench" });
        return conversation.send(LONG);
      }),
    );
    const ids = runs.map((run) => run.id);
    await until("runs under way", async () => (await owners(place.database, ids)).size === 1, WAIT_MS);
    await pause(500);
    const diedAtMs = await clockMs(place.database);
    served.process.child.kill(signal);
    const took = await until("the takeover", () => recovered(place.database, ids, diedAtMs), WAIT_MS);
    say(`${signal}: ${took.map((time) => ms(time)).join(", ")}`);
    times.push(...took);
    served.process.child.kill("SIGCONT");
    await served.process.kill("SIGKILL");
    // What is left of this round is not to burden the next one.
    await worker.kill("SIGKILL");
    await Promise.all(ids.map((id) => place.heir.runs.cancel(id)));
  }
  return times;
}

async function owners(database: pg.Client, runs: readonly string[]): Promise<ReadonlySet<number>> {
  const { rows } = await database.query<{ owner: number | null }>(
    "select distinct owner from signalbox.run where id = any ($1) and state = 'running'",
    [runs],
  );
  return new Set(rows.flatMap(({ owner }) => (owner === null ? [] : [owner])));
}

async function clockMs(database: pg.Client): Promise<number> {
  const { rows } = await database.query<{ ms: number }>(
    "select (extract(epoch from clock_timestamp()) * 1000)::double precision as ms",
  );
  return rows[0]?.ms ?? Number.NaN;
}

/** Null until every one of them was taken over. */
async function recovered(database: pg.Client, runs: readonly string[], sinceMs: number): Promise<number[] | null> {
  const { rows } = await database.query<{ ms: number }>(
    `select min(extract(epoch from at) * 1000)::double precision as ms from signalbox.event
     where run_id = any ($1) and type = 'run.recovered' and extract(epoch from at) * 1000 > $2 group by run_id`,
    [runs, sinceMs],
  );
  return rows.length < runs.length ? null : rows.map((row) => row.ms - sinceMs);
}
