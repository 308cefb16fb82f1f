import { readFileSync } from "node:fs";
import pg from "pg";
import { expect, it } from "vitest";
import { migrate, readMigrations } from "../../../packages/server/src/store/migrations.ts";
import { cloneDatabase } from "../../setup/clone-database.ts";
import { RecordWorld } from "./record-world.ts";
import { dumpSchema } from "./schema-dump.ts";

it("two starts at once apply every migration once", async () => {
  await using database = await cloneDatabase("template0");
  const reports = await Promise.all([migrate(database.config), migrate(database.config), migrate(database.config)]);
  const applied = reports.flatMap((report) => report.applied);
  expect(applied).toEqual(readMigrations().map((migration) => migration.name));
  const newest = readMigrations().at(-1)!.number;
  expect(reports.map((report) => report.version)).toEqual([newest, newest, newest]);
});

it("refuses a migration that was changed after it had been applied, and leaves a newer database alone", async () => {
  await using database = await cloneDatabase();
  const [first, ...rest] = readMigrations();
  const changed = [{ ...first!, digest: "0" }, ...rest];
  await expect(migrate(database.config, changed)).rejects.toMatchObject({
    code: "internal",
    cause: { message: expect.stringContaining("0001-tables.sql was changed") },
  });
  const older = readMigrations().slice(0, 5);
  expect(await migrate(database.config, older)).toEqual({ applied: [], version: readMigrations().at(-1)!.number });
});

it("leaves nothing of a migration that fails", async () => {
  await using database = await cloneDatabase();
  const all = readMigrations();
  const broken = {
    number: all.at(-1)!.number + 1,
    name: "broken",
    text: "create table signalbox.half (); select 1 / 0",
    digest: "x",
  };
  await expect(migrate(database.config, [...all, broken])).rejects.toMatchObject({ code: "internal" });
  const client = new pg.Client(database.config);
  await client.connect();
  const { rows } = await client.query("select to_regclass('signalbox.half') as half");
  await client.end();
  expect(rows).toEqual([{ half: null }]);
  expect((await migrate(database.config)).applied).toEqual([]);
});

it("tells an administrator what to run when the user may not create roles", async () => {
  await using world = await RecordWorld.open();
  await using database = await cloneDatabase("template0");
  const user = `u_${database.config.database}`;
  await world.superuser.query(`create role ${user} login`);
  try {
    const failure: unknown = await migrate({ ...database.config, user }).catch((thrown: unknown) => thrown);
    expect(failure).toMatchObject({
      code: "database_unavailable",
      message: expect.stringContaining("grant signalbox_owner, signalbox_app, signalbox_run to"),
    });
    // What it says is enough.
    await world.superuser.query(`grant signalbox_owner, signalbox_app, signalbox_run to ${user}`);
    const own = new pg.Client(database.config);
    await own.connect();
    await own.query("create schema if not exists signalbox authorization signalbox_owner");
    await own.end();
    expect((await migrate({ ...database.config, user })).applied).toHaveLength(readMigrations().length);
  } finally {
    const own = new pg.Client(database.config);
    await own.connect();
    await own.query(`drop owned by ${user}`);
    await own.end();
    await world.superuser.query(`drop role ${user}`);
  }
});

it("the committed schema is that of a migrated database", async () => {
  await using world = await RecordWorld.open();
  await expect(await dumpSchema(world.superuser)).toMatchFileSnapshot("../../../packages/server/sql/schema.sql");
});

it("what queries believe of tables is what the catalog says", async () => {
  await using world = await RecordWorld.open();
  const source = readFileSync(new URL("../../../packages/server/src/store/tables.ts", import.meta.url), "utf8");
  const tables = [...source.matchAll(/readonly "signalbox\.(\w+)": (\w+);/g)];
  expect(tables.length).toBeGreaterThan(5);
  for (const [, table, type] of tables) {
    const body = new RegExp(`interface ${type} \\{([^}]*)\\}`).exec(source)?.[1] ?? "";
    const believed = [...body.matchAll(/readonly (\w+): (.*);/g)].map(([, name, text]) => ({
      name,
      nullable: text!.includes("null"),
    }));
    const columns = await world.rows<{ name: string; nullable: boolean }>(
      `select column_name as name, is_nullable = 'YES' as nullable from information_schema.columns
       where table_schema = 'signalbox' and table_name = $1`,
      [table],
    );
    const inOrder = (all: readonly { readonly name?: string | undefined }[]) =>
      all.toSorted((left, right) => (left.name! < right.name! ? -1 : 1));
    const hidden = new Set(["conclusion"]);
    expect(inOrder(believed), `${table}`).toEqual(inOrder(columns.filter((column) => !hidden.has(column.name))));
  }
});
