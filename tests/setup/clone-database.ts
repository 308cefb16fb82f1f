/** A database of its own for a test file: a copy of the migrated one. Dispose it after closing every connection. */
import { randomBytes } from "node:crypto";
import pg from "pg";
import { inject } from "vitest";
import { TEMPLATE, type PreparedDatabase } from "./prepared-database.ts";

export interface ClonedDatabase extends AsyncDisposable {
  /** For `pg`; connects as the superuser of the test server. */
  readonly config: PreparedDatabase & { readonly database: string };
  readonly url: string;
}

/** `template` names another database to copy; `template0` gives an empty one. */
export async function cloneDatabase(template: string = TEMPLATE): Promise<ClonedDatabase> {
  const where = inject("preparedDatabase");
  const database = `test_${randomBytes(6).toString("hex")}`;
  await administer(where, `create database ${database} template ${template} strategy wal_log`);
  return {
    config: { ...where, database },
    url: `postgresql:///${database}?host=${encodeURIComponent(where.host)}&port=${where.port}&user=${where.user}`,
    async [Symbol.asyncDispose]() {
      await administer(where, `drop database ${database}`);
    },
  };
}

async function administer(where: PreparedDatabase, statement: string): Promise<void> {
  const client = new pg.Client({ ...where, database: "postgres" });
  await client.connect();
  try {
    await client.query(statement);
  } finally {
    await client.end();
  }
}
