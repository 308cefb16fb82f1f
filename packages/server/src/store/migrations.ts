/**
 * Forward-only migrations: numbered `.sql` files, each applied once, in order, in a transaction of its own. Two starts
 * at once wait for each other. A database that is ahead of this release is left as it is: the newer release beside us
 * keeps it working for both.
 */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { PlatformError } from "@signalbox/contract";
import pg, { type Client, type ClientConfig } from "pg";
import { sqlState, translateDatabaseError } from "./database-errors.ts";
import { ROLES } from "./roles.ts";
import {
  APPLIED_MIGRATIONS,
  BECOME_OWNER,
  CREATE_MIGRATION_TABLE,
  CREATE_SCHEMA,
  createRole,
  FOREIGN_ROLES,
  HAS_MIGRATION_TABLE,
  HAS_SCHEMA,
  joinRole,
  LOCK_MIGRATIONS,
  MISSING_ROLES,
  NOTE_MIGRATION,
} from "./statements/migration-statements.ts";

export interface Migration {
  readonly number: number;
  readonly name: string;
  readonly text: string;
  readonly digest: string;
}

export interface MigrationReport {
  /** Names of what was applied now, in order. */
  readonly applied: readonly string[];
  readonly version: number;
}

const FILE_NAME = /^(\d{4})-[a-z0-9-]+\.sql$/;
/** The same from `src/store` and from `dist/store`. */
const FOLDER = new URL("../../sql/migrations/", import.meta.url);
const CONNECT_TIMEOUT_MS = 10_000;

/** SQLSTATEs: somebody else created the role in this moment. */
const ROLE_EXISTS: ReadonlySet<string | null> = new Set(["42710", "23505"]);
const NOT_PERMITTED = "42501";

export function readMigrations(folder: URL = FOLDER): readonly Migration[] {
  const names = readdirSync(folder).filter((name) => name.endsWith(".sql"));
  let last = 0;
  return names.sort().map((name) => {
    const number = Number(FILE_NAME.exec(name)?.[1]);
    // Numbers are handed out before the work is done, so one may be missing for a while; none is used twice.
    if (!(number > last)) {
      throw new Error(`migration ${fileURLToPath(new URL(name, folder))} breaks the numbering 0001, 0002 …`);
    }
    last = number;
    const text = readFileSync(new URL(name, folder), "utf8");
    return { number, name, text, digest: createHash("sha256").update(text).digest("hex") };
  });
}

/** `config` must reach the database directly, as a user who may create roles and a schema, or with both prepared. */
export async function migrate(
  config: ClientConfig,
  migrations: readonly Migration[] = readMigrations(),
): Promise<MigrationReport> {
  const client = new pg.Client({
    ...config,
    application_name: "signalbox migrations",
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  });
  client.on("error", () => undefined);
  try {
    await client.connect();
    await client.query(LOCK_MIGRATIONS);
    await prepareRoles(client);
    await prepareSchema(client);
    return await apply(client, migrations);
  } catch (thrown) {
    throw translateDatabaseError(thrown);
  } finally {
    // Ends the session and with it the lock.
    await client.end().catch(() => undefined);
  }
}

async function prepareRoles(client: Client): Promise<void> {
  try {
    for (const role of await names(client, MISSING_ROLES)) {
      await client.query(createRole(role)).catch((thrown: unknown) => {
        if (!ROLE_EXISTS.has(sqlState(thrown))) throw thrown;
      });
    }
    for (const role of await names(client, FOREIGN_ROLES)) {
      await client.query(joinRole(role));
    }
  } catch (thrown) {
    throw explainRefusal(thrown, [
      ...ROLES.map((role) => `${createRole(role)};`),
      `grant ${ROLES.join(", ")} to <the user of DATABASE_URL>;`,
    ]);
  }
}

async function names(client: Client, statement: string): Promise<readonly string[]> {
  const { rows } = await client.query<{ readonly name: string }>(statement, [ROLES]);
  return rows.map((row) => row.name);
}

async function prepareSchema(client: Client): Promise<void> {
  try {
    if ((await client.query(HAS_SCHEMA)).rowCount === 0) {
      await client.query(CREATE_SCHEMA);
    }
    await client.query(BECOME_OWNER);
    const { rows } = await client.query<{ readonly present: boolean }>(HAS_MIGRATION_TABLE);
    if (rows[0]?.present !== true) {
      await client.query(CREATE_MIGRATION_TABLE);
    }
  } catch (thrown) {
    throw explainRefusal(thrown, [`${CREATE_SCHEMA};`]);
  }
}

function explainRefusal(thrown: unknown, statements: readonly string[]): unknown {
  if (sqlState(thrown) !== NOT_PERMITTED) {
    return thrown;
  }
  return new PlatformError(
    "database_unavailable",
    `The database user may not prepare Signalbox. Let an administrator run once: ${statements.join(" ")}`,
    { cause: thrown, extra: { reason: "no_permission" } },
  );
}

async function apply(client: Client, migrations: readonly Migration[]): Promise<MigrationReport> {
  const { rows } = await client.query<{ readonly number: number; readonly digest: string }>(APPLIED_MIGRATIONS);
  const known = new Map(rows.map((row) => [row.number, row.digest]));
  const applied: string[] = [];
  for (const migration of migrations) {
    const digest = known.get(migration.number);
    if (digest === undefined) {
      await applyOne(client, migration);
      applied.push(migration.name);
    } else if (digest !== migration.digest) {
      throw new Error(`migration ${migration.name} was changed after it had been applied; write a new one`);
    }
  }
  return { applied, version: Math.max(0, ...known.keys(), ...migrations.map((migration) => migration.number)) };
}

async function applyOne(client: Client, migration: Migration): Promise<void> {
  await client.query("begin");
  try {
    await client.query(migration.text);
    await client.query(NOTE_MIGRATION, [migration.number, migration.name, migration.digest]);
    await client.query("commit");
  } catch (cause) {
    await client.query("rollback").catch(() => undefined);
    throw new Error(`migration ${migration.name} failed`, { cause });
  }
}
