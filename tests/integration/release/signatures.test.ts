/**
 * What the previous release asks of the database still has an answer in a database that the present migrations made:
 * its statements can be prepared, the functions it calls have the arguments and the results it knows, the columns it
 * reads are there, and a row it writes without knowing the new columns is accepted.
 */
import { readFileSync } from "node:fs";
import pg, { type Client } from "pg";
import { afterAll, beforeAll, expect, test } from "vitest";
import { cloneDatabase, type ClonedDatabase } from "../../setup/clone-database.ts";
import { unpackPreviousRelease, type PreviousRelease } from "../../setup/previous-release.ts";
import { StorePools } from "../../../packages/server/src/store/pools.ts";
import { RUN_ROLE } from "../../../packages/server/src/store/roles.ts";
import { TenantDatabase, type TenantTransaction } from "../../../packages/server/src/store/tenant-database.ts";

let release: PreviousRelease;
let database: ClonedDatabase;
let client: Client;
beforeAll(async () => {
  release = unpackPreviousRelease();
  database = await cloneDatabase();
  client = new pg.Client(database.config);
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await database[Symbol.asyncDispose]();
  release[Symbol.dispose]();
});

/** Fragments that are only ever part of a query that is built where it is used, in one that could be. */
const FRAGMENTS: Readonly<Record<string, (build: (...values: readonly unknown[]) => string) => string>> = {
  activeRunOf: (build) => `select ${build()} from signalbox.conversation as conversation`,
  queueOf: (build) => `select ${build()} from signalbox.conversation as conversation`,
  enterTenant: (build) => build("t"),
  writeAudit: (build) => build({ tenantId: "t", action: "a", actor: "{}", conversationId: null, facts: "{}" }),
  beyond: (build) =>
    `select from signalbox.run where ${build("run.id", "asc", "x")} or ${build("run.id", "desc", "x")}`,
  clock: (build) => `select ${build()}`,
  // Of the session and of the migrator: they name roles and settings, and nothing of the schema but its own table.
  beginSession: (build) => build("signalbox_run", { statementMs: 60_000, idleInTransactionMs: 60_000 }),
  createRole: (build) => build("signalbox_other"),
  joinRole: (build) => build("signalbox_run"),
};
/** What cannot be prepared is run, in a transaction that is taken back. */
const RUN: ReadonlySet<string> = new Set([
  "BECOME_OWNER",
  "CREATE_MIGRATION_TABLE",
  "CREATE_SCHEMA",
  "LISTEN",
  "beginSession",
  "createRole",
  "joinRole",
]);

interface Statement {
  readonly name: string;
  readonly text: string;
}

/** What a released builder makes: compiled by whatever runs it. */
type Build = (...values: readonly unknown[]) => string | { compile(by: TenantTransaction): { readonly sql: string } };

async function releasedStatements(): Promise<readonly Statement[]> {
  const files = release.files("store/statements").filter((name) => name.endsWith("-statements.js"));
  expect(files.length).toBe(8);
  await using pools = new StorePools(database.config, { connectionCount: 1 });
  return await new TenantDatabase(pools.app).transaction("t", async (transaction) => {
    const found: Statement[] = [];
    for (const file of files) {
      for (const [name, value] of Object.entries(await release.module(`store/statements/${file}`))) {
        const text = textOf(name, value, transaction);
        if (text !== null) found.push({ name, text });
      }
    }
    return found;
  });
}

function textOf(name: string, value: unknown, transaction: TenantTransaction): string | null {
  if (typeof value === "string") return value;
  if (typeof value === "object" && value !== null && "text" in value) return String(value.text);
  // `call` makes the statements that are exported beside it.
  if (typeof value !== "function" || name === "call") return null;
  const fragment = FRAGMENTS[name];
  if (fragment === undefined) throw new Error(`nothing says how the released ${name} is used`);
  return fragment((...values) => {
    // What a released module exports as a function is a builder of text; its own types did not come with it.
    const built = (value as Build)(...values);
    return typeof built === "string" ? built : built.compile(transaction).sql;
  });
}

test("every statement of the previous release can be prepared, and each means one function", async () => {
  const statements = await releasedStatements();
  expect(statements.length).toBeGreaterThan(30);
  await client.query(`set role ${RUN_ROLE}`);
  const refused: string[] = [];
  for (const [index, statement] of statements.entries()) {
    try {
      if (RUN.has(statement.name)) {
        await client.query("begin");
        await client.query("reset role");
        await client.query(statement.text);
      } else {
        await client.query(`prepare released_${index} as ${statement.text}`);
      }
    } catch (thrown) {
      refused.push(`${statement.name}: ${thrown instanceof Error ? thrown.message : String(thrown)}`);
    } finally {
      if (RUN.has(statement.name)) await client.query("rollback");
    }
  }
  await client.query("reset role");
  expect(refused).toEqual([]);
});

const FUNCTION = /^CREATE OR REPLACE FUNCTION signalbox\.(\w+)\((.*)\)\n RETURNS (.*)$/gm;

test("functions that the previous release calls keep arguments and results", async () => {
  const schema = readFileSync(release.schemaFile, "utf8");
  const released = new Map([...schema.matchAll(FUNCTION)].map(([, name, given, told]) => [name, { given, told }]));
  const called = new Set<string>();
  for (const { text } of await releasedStatements()) {
    for (const [, name] of text.matchAll(/signalbox\.(\w+)\s*\(/g)) called.add(name!);
  }
  // Called by queries that are built where they are used.
  for (const name of ["audit", "clock"]) called.add(name);
  const { rows } = await client.query<{ name: string; given: string; told: string }>(
    `select p.proname as name, pg_get_function_arguments(p.oid) as given, pg_get_function_result(p.oid) as told
     from pg_proc p where p.pronamespace = 'signalbox'::regnamespace`,
  );
  const missing = [...called].filter((name) => {
    const before = released.get(name);
    if (before === undefined) return false;
    return !rows.some((row) => row.name === name && row.given === before.given && row.told === before.told);
  });
  expect(missing).toEqual([]);
  expect([...called].filter((name) => released.has(name)).length).toBeGreaterThan(25);
});

interface Column {
  readonly place: string;
  readonly type: string;
  readonly needed: boolean;
}

test("columns of the previous release are there with their types, and new ones need no value", async () => {
  const schema = readFileSync(release.schemaFile, "utf8");
  const before = new Map(columnsOf(schema).map((column) => [column.place, column]));
  const now = new Map(
    columnsOf(readFileSync(new URL("../../../packages/server/sql/schema.sql", import.meta.url), "utf8")).map(
      (column) => [column.place, column],
    ),
  );
  const tables = new Set([...before.keys()].map((place) => place.split(".")[0]));
  expect(before.size).toBeGreaterThan(100);
  const gone = [...before.values()].filter((column) => now.get(column.place)?.type !== column.type);
  const demanded = [...now.values()].filter(
    (column) => tables.has(column.place.split(".")[0]) && column.needed && before.get(column.place)?.needed !== true,
  );
  expect({ gone, demanded }).toEqual({ gone: [], demanded: [] });
});

/** As the committed schema writes them; `needed`: a row without a value for it is refused. */
function columnsOf(schema: string): readonly Column[] {
  return [...schema.matchAll(/^create (?:unlogged )?table signalbox\.(\w+) \(\n([\s\S]*?)\n\)/gm)].flatMap(
    ([, table, body]) =>
      body!.split(",\n").map((line) => {
        const [, name, rest] = /^\s*(\w+) (.*)$/.exec(line) ?? [];
        const type = rest!.replace(/ (not null|default|generated) .*$| not null$/, "");
        const needed = / not null/.test(rest!) && !/ default | generated /.test(rest!);
        return { place: `${table}.${name}`, type, needed };
      }),
  );
}

test("rows that the previous release writes are allowed by every check it did not know", async () => {
  const constraint = /^alter table signalbox\.(\w+) add constraint (\w+) CHECK (.*);$/gm;
  const known = new Set(
    [...readFileSync(release.schemaFile, "utf8").matchAll(constraint)].map(([, table, name]) => `${table}.${name}`),
  );
  const { rows } = await client.query<{ place: string; columns: string[]; table: string }>(
    `select c.relname || '.' || k.conname as place, c.relname as table,
            array(select a.attname::text from pg_attribute a
                  where a.attrelid = c.oid and a.attnum = any (k.conkey)) as columns
     from pg_constraint k join pg_class c on c.oid = k.conrelid
     where c.relnamespace = 'signalbox'::regnamespace and k.contype = 'c'`,
  );
  const before = new Set(columnsOf(readFileSync(release.schemaFile, "utf8")).map((column) => column.place));
  const tables = new Set([...before].map((place) => place.split(".")[0]));
  // A new check over old columns alone narrows what the old code may write.
  const narrowing = rows.filter(
    (row) =>
      tables.has(row.table) &&
      !known.has(row.place) &&
      row.columns.length > 0 &&
      row.columns.every((column) => before.has(`${row.table}.${column}`)),
  );
  expect(narrowing.map((row) => row.place)).toEqual([]);
});
