/**
 * Commits before the first token, read from the database's own log of statements: each names its session and whether
 * its transaction had to write. Only the sessions of requests, runs and gates count; doorbells and the heartbeat of the
 * process have sessions of their own and nobody waits for them. The double takes its time, so that what follows the
 * first token cannot be taken for what comes before it.
 */
import { readFileSync } from "node:fs";
import pg from "pg";
import type { Arena } from "./sides.ts";

const WAITING_TEXT = "[[sim:tokens 2]] [[sim:slow 60]] Count.";
const MARK = "first token of run";
const LINE = /^(.*)\|(\d+)\|LOG: {2}duration: .* ms {2}execute (\w+):/;
/** Sessions that a request waits for. */
const WAITED_FOR = /^signalbox signalbox_(?:app|run)$/;
const FLUSH_WAIT_MS = 2_000;

/** For each run the names of the writing statements between its request and its first token. */
export async function commitsBeforeFirstToken(arena: Arena, runCount: number): Promise<readonly (readonly string[])[]> {
  const database = new pg.Client({ connectionString: arena.stage.databaseUrl });
  await database.connect();
  try {
    await database.query("alter system set log_min_duration_statement = 0");
    await database.query("alter system set log_line_prefix = '%a|%x|'");
    await database.query("select pg_reload_conf()");
    const runs: (readonly string[])[] = [];
    // The first run waits until every session has heard of the setting.
    for (let run = 0; run <= runCount; run += 1) {
      const names = await oneRun(arena, database, run);
      if (run > 0) runs.push(names);
    }
    return runs;
  } finally {
    await database.query("alter system reset all");
    await database.query("select pg_reload_conf()");
    await database.end();
  }
}

async function oneRun(arena: Arena, database: pg.Client, run: number): Promise<readonly string[]> {
  const { stage, client, runtime } = arena;
  const conversation = await stage.newConversation(runtime);
  const from = await marked(stage.databaseLog, database, `request ${run}`);
  const firstTokens: Promise<number>[] = [];
  await client.send(conversation, WAITING_TEXT, {
    onFirstToken: () => firstTokens.push(marked(stage.databaseLog, database, `${MARK} ${run}`)),
  });
  const [to] = await Promise.all(firstTokens);
  const log = readFileSync(stage.databaseLog, "utf8").slice(from, to);
  return log.split("\n").flatMap((line) => {
    const [, session = "", transaction = "0", statement = ""] = LINE.exec(line) ?? [];
    return WAITED_FOR.test(session) && transaction !== "0" ? [statement] : [];
  });
}

/** Where the log stands once it holds this mark. */
async function marked(path: string, database: pg.Client, mark: string): Promise<number> {
  await database.query(`select '${mark}'`);
  const deadlineMs = performance.now() + FLUSH_WAIT_MS;
  while (performance.now() < deadlineMs) {
    const at = readFileSync(path, "utf8").lastIndexOf(`'${mark}'`);
    if (at >= 0) return at;
    await new Promise((resolve) => setImmediate(resolve));
  }
  // Not yet logging: the setting reaches a session between two of its statements.
  return readFileSync(path, "utf8").length;
}
