/** So many answers at once, each token carrying the time the double wrote it, looked at while all of them are under way. */
import { setTimeout as pause } from "node:timers/promises";
import { tokenTimes } from "@signalbox/testkit";
import pg from "pg";
import { until } from "../../tests/setup/until.ts";
import { cpuMsOf } from "../stage/cpu.ts";
import type { Stage } from "../stage/stage.ts";
import { StreamClient } from "../stage/stream-client.ts";

/** Between two beginnings, so that admission is not what is looked at. */
const BEGIN_EVERY_MS = 10;
const BEGUN_WITHIN_MS = 120_000;
const ENDED_WITHIN_MS = 60_000;

export interface Streams {
  readonly runtime: string;
  readonly count: number;
  readonly windowMs: number;
  readonly interrupted: AbortSignal;
}

export interface Seen {
  readonly lagsMs: readonly number[];
  readonly tokenCount: number;
  readonly rowCount: number;
  readonly platformCpuMs: number;
  readonly workerCpuMs: number;
  readonly databaseCpuMs: number;
}

export async function watchStreams(stage: Stage, streams: Streams): Promise<Seen> {
  using client = new StreamClient({ url: stage.url, apiKey: stage.apiKey });
  const database = new pg.Client({ connectionString: stage.databaseUrl });
  await database.connect();
  const runs: string[] = [];
  const ended: Promise<unknown>[] = [];
  const failures: unknown[] = [];
  const lagsMs: number[] = [];
  let begunCount = 0;
  let looking = false;
  const onText = (text: string): void => {
    if (!looking) return;
    const nowMs = performance.timeOrigin + performance.now();
    for (const writtenAtMs of tokenTimes(text)) lagsMs.push(nowMs - writtenAtMs);
  };
  try {
    for (let made = 0; made < streams.count; made += 1) {
      streams.interrupted.throwIfAborted();
      const conversation = await stage.newConversation(streams.runtime);
      const onRun = (id: string): unknown => runs.push(id);
      const sent = client.send(conversation, "Speak.", { onRun, onFirstToken: () => (begunCount += 1), onText });
      ended.push(sent.catch((problem: unknown) => failures.push(problem)));
      await pause(BEGIN_EVERY_MS);
    }
    await until("every stream", () => begunCount === streams.count || failures.length > 0, BEGUN_WITHIN_MS);
    if (failures.length > 0) throw new Error("a stream ended before it was looked at", { cause: failures[0] });
    // Whoever began last has begun for good.
    await pause(streams.windowMs / 4);
    const before = await standing(stage, database);
    looking = true;
    await pause(streams.windowMs);
    looking = false;
    const after = await standing(stage, database);
    return {
      lagsMs,
      tokenCount: lagsMs.length,
      rowCount: after.rowCount - before.rowCount,
      platformCpuMs: after.platformCpuMs - before.platformCpuMs,
      workerCpuMs: after.workerCpuMs - before.workerCpuMs,
      databaseCpuMs: after.databaseCpuMs - before.databaseCpuMs,
    };
  } finally {
    await Promise.all(runs.map((run) => stage.client.runs.cancel(run)));
    await Promise.race([Promise.all(ended), pause(ENDED_WITHIN_MS, null, { ref: false })]);
    await database.end();
  }
}

async function standing(stage: Stage, database: pg.Client) {
  const { rows } = await database.query<{ count: number }>("select count(*)::integer as count from signalbox.event");
  const platformCpuMs = cpuMsOf([stage.platformPid]);
  return {
    rowCount: rows[0]?.count ?? Number.NaN,
    platformCpuMs,
    workerCpuMs: cpuMsOf(stage.pids) - platformCpuMs,
    databaseCpuMs: stage.databaseCpuMs(),
  };
}
