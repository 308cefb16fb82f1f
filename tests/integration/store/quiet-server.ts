/**
 * A record on a server of its own. A transaction that is open anywhere on a server, in any database, keeps every scan
 * from marking what was deleted since, so what a statement reads there depends on the neighbours.
 */
import { openDatabase } from "../../../packages/server/src/database/open-database.ts";
import { migrate } from "../../../packages/server/src/store/migrations.ts";
import { Scratch } from "../database-processes.ts";
import { RecordWorld } from "./record-world.ts";

export interface QuietServer extends AsyncDisposable {
  readonly own: RecordWorld;
}

/** Nothing cleans up or counts there either. Dispose it after the processes that use it. */
export async function openQuietServer(): Promise<QuietServer> {
  await using opened = new AsyncDisposableStack();
  const scratch = opened.use(await Scratch.withCluster());
  const database = opened.use(await openDatabase({ dataDir: scratch.dataDir }));
  const config = database.pgConfig;
  if (!("host" in config)) {
    throw new Error("not an embedded database");
  }
  await migrate(config);
  const own = opened.use(
    await RecordWorld.over({ config, url: database.connectionString, [Symbol.asyncDispose]: async () => undefined }),
  );
  await keepOffDisk(own);
  await leaveAlone(own);
  const stack = opened.move();
  return { own, [Symbol.asyncDispose]: () => stack.disposeAsync() };
}

/** What is measured is read, not written: nothing has to reach a disk. */
async function keepOffDisk(own: RecordWorld): Promise<void> {
  await own.superuser.query("alter system set fsync = off");
  await own.superuser.query("select pg_reload_conf()");
}

/** What the server reads to clean up and to count comes at a moment of its own, and what it finds changes plans. */
async function leaveAlone(own: RecordWorld): Promise<void> {
  const tables = await own.rows<{ name: string }>(
    "select format('%I.%I', schemaname, tablename) as name from pg_tables where schemaname = 'signalbox'",
  );
  for (const { name } of tables) {
    await own.superuser.query(`alter table ${name} set (autovacuum_enabled = false)`);
  }
}
