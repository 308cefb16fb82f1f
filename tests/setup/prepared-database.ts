/**
 * Runs once before the files of every test kind that needs PostgreSQL: starts one embedded server in a folder of its
 * own and migrates the database that each test file is cloned from (see `clone-database.ts`). All of it is gone when
 * the last kind has ended.
 */
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import type { TestProject } from "vitest/node";
import { openDatabase, type Database } from "../../packages/server/src/database/open-database.ts";
import { migrate } from "../../packages/server/src/store/migrations.ts";

export const TEMPLATE = "prepared";

export interface PreparedDatabase {
  readonly host: string;
  readonly port: number;
  readonly user: string;
}

declare module "vitest" {
  interface ProvidedContext {
    readonly preparedDatabase: PreparedDatabase;
  }
}

interface Prepared {
  readonly where: PreparedDatabase;
  readonly database: Database;
  readonly folder: string;
}

/** Every kind loads this module anew, in one process: what they share is kept where all of them find it. */
const shared = globalThis as typeof globalThis & {
  signalboxPrepared?: { users: number; readonly prepared: Promise<Prepared> };
};

export async function setup(project: TestProject): Promise<void> {
  shared.signalboxPrepared ??= { users: 0, prepared: prepare() };
  shared.signalboxPrepared.users += 1;
  project.provide("preparedDatabase", (await shared.signalboxPrepared.prepared).where);
}

export async function teardown(): Promise<void> {
  const used = shared.signalboxPrepared;
  if (used === undefined) {
    return;
  }
  used.users -= 1;
  if (used.users === 0) {
    delete shared.signalboxPrepared;
    const { database, folder } = await used.prepared;
    await database[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  }
}

async function prepare(): Promise<Prepared> {
  const folder = await mkdtemp(join(tmpdir(), "sbx-prepared-"));
  // A database server that drops root must be able to walk through.
  await chmod(folder, 0o755);
  const database = await openDatabase({ dataDir: join(folder, "data") });
  const config = database.pgConfig;
  if (!("host" in config)) {
    throw new Error("tests run on the embedded database");
  }
  const { host, port, user } = config;
  const client = new pg.Client({ host, port, user, database: "postgres" });
  await client.connect();
  // Tests kill processes, never the power: nothing here has to reach a disk.
  await client.query("alter system set fsync = off");
  await client.query("select pg_reload_conf()");
  await client.query(`create database ${TEMPLATE}`);
  await client.end();
  await migrate({ host, port, user, database: TEMPLATE });
  return { where: { host, port, user }, database, folder };
}
