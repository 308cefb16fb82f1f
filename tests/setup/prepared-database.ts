/**
 * Runs once before the files of every test kind that needs PostgreSQL: starts one embedded server in a folder of its
 * own and migrates the database that each test file is cloned from (see `clone-database.ts`). All of it is gone when
 * the last kind has ended. `SIGNALBOX_TEST_POSTGRES=user@host:port` (a socket's folder as host, too) names another server
 * to run on, such as the oldest supported version; everything but the roles is removed from it again.
 */
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import type { TestProject } from "vitest/node";
import { openDatabase } from "../../packages/server/src/database/open-database.ts";
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
  readonly stop: () => Promise<void>;
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
    await (await used.prepared).stop();
  }
}

async function prepare(): Promise<Prepared> {
  const named = /^(\w+)@(.+):(\d+)$/.exec(process.env.SIGNALBOX_TEST_POSTGRES ?? "");
  if (named === null) {
    return prepareEmbedded();
  }
  const where = { host: named[2] ?? "", port: Number(named[3]), user: named[1] ?? "" };
  await makeTemplate(where);
  return { where, stop: () => administer(where, [`drop database ${TEMPLATE}`]) };
}

async function prepareEmbedded(): Promise<Prepared> {
  const folder = await mkdtemp(join(tmpdir(), "sbx-prepared-"));
  // A database server that drops root must be able to walk through.
  await chmod(folder, 0o755);
  const database = await openDatabase({ dataDir: join(folder, "data") });
  const config = database.pgConfig;
  if (!("host" in config)) {
    throw new Error("tests run on the embedded database");
  }
  const { host, port, user } = config;
  const where = { host, port, user };
  // Tests kill processes, never the power: nothing here has to reach a disk.
  await administer(where, ["alter system set fsync = off", "select pg_reload_conf()"]);
  await makeTemplate(where);
  return {
    where,
    async stop() {
      await database[Symbol.asyncDispose]();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

async function makeTemplate(where: PreparedDatabase): Promise<void> {
  await administer(where, [`create database ${TEMPLATE}`]);
  await migrate({ ...where, database: TEMPLATE });
}

async function administer(where: PreparedDatabase, statements: readonly string[]): Promise<void> {
  const client = new pg.Client({ ...where, database: "postgres" });
  await client.connect();
  try {
    for (const statement of statements) {
      await client.query(statement);
    }
  } finally {
    await client.end();
  }
}
