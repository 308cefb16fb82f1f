import { execFileSync } from "node:child_process";
import { chmodSync, chownSync, cpSync, lstatSync, mkdirSync, readdirSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it } from "vitest";
import { openDatabase } from "../../packages/server/src/database/open-database.ts";
import { findPlatformPackage } from "../../packages/server/src/database/platform-package.ts";
import { prepareRuntime } from "../../packages/server/src/database/server-runtime.ts";
import { thisUser } from "../../packages/server/src/database/server-user.ts";
import {
  DatabaseNode,
  folderExists,
  isRoot,
  isRunning,
  killAllNodes,
  processesIn,
  query,
  Scratch,
  socketDirectories,
} from "./database-processes.ts";

afterEach(killAllNodes);

describe("the embedded database", () => {
  it("is made at the first start, stopped by the last node out, and keeps its rows", async () => {
    await using scratch = new Scratch();
    const { dataDir } = scratch;
    {
      await using first = await openDatabase({ dataDir });
      expect(first).toMatchObject({ kind: "embedded", origin: "created" });
      await query(first.connectionString, "create table kept (line text)");
      await query(first.connectionString, "insert into kept values ('one')");
    }
    expect(processesIn(dataDir)).toEqual([]);
    expect(socketDirectories()).toEqual([]);

    await using second = await openDatabase({ dataDir });
    expect(second).toMatchObject({ origin: "started" });
    expect(await query(second.connectionString, "select line from kept")).toEqual([{ line: "one" }]);
  });

  it("listens on its socket only, durably, and gives `pg` what it needs", async () => {
    await using scratch = await Scratch.withCluster();
    await using database = await openDatabase({ dataDir: scratch.dataDir });
    const rows = await query(
      database.connectionString,
      `select current_setting('listen_addresses') as addresses, current_setting('fsync') as fsync,
              current_setting('synchronous_commit') as commit, current_user as who, current_database() as name,
              current_setting('config_file') <> '' as configured`,
    );
    expect(rows).toEqual([
      { addresses: "", fsync: "on", commit: "on", who: "postgres", name: "signalbox", configured: true },
    ]);
    expect(database.pgConfig).toMatchObject({ user: "postgres", database: "signalbox" });
    const { host } = database.pgConfig as { readonly host: string };
    expect(statSync(host).mode & 0o777).toBe(0o700);
    expect(Buffer.byteLength(join(host, ".s.PGSQL.5432"))).toBeLessThanOrEqual(107);
  });

  it("is one server for two processes, until the second has left", async () => {
    await using scratch = await Scratch.withCluster();
    const first = new DatabaseNode({ dataDir: scratch.dataDir });
    const a = await first.opened();
    const second = new DatabaseNode({ dataDir: scratch.dataDir });
    const b = await second.opened();
    expect(b).toMatchObject({ origin: "attached", serverPid: a.serverPid, connectionString: a.connectionString });

    await first.leave();
    expect(await query(b.connectionString, "select 1 as one")).toEqual([{ one: 1 }]);

    await second.leave();
    expect(await isRunning(a.serverPid)).toBe(false);
  });

  it("starts once when four processes start it at once", async () => {
    await using scratch = new Scratch();
    const nodes = [1, 2, 3, 4].map(() => new DatabaseNode({ dataDir: scratch.dataDir }));
    const opened = await Promise.all(nodes.map((node) => node.opened()));
    expect(opened.map(({ origin }) => origin).sort()).toEqual(["attached", "attached", "attached", "created"]);
    expect(new Set(opened.map(({ serverPid }) => serverPid)).size).toBe(1);
    expect(nodes.some((node) => node.steps().includes("waiting_for_another_process"))).toBe(true);

    await Promise.all(nodes.map((node) => node.leave()));
    expect(await isRunning(opened[0]!.serverPid)).toBe(false);
  });

  it("counts each handle of a process", async () => {
    await using scratch = await Scratch.withCluster();
    const [one, two] = await Promise.all([
      openDatabase({ dataDir: scratch.dataDir }),
      openDatabase({ dataDir: scratch.dataDir }),
    ]);
    await one[Symbol.asyncDispose]();
    await one[Symbol.asyncDispose]();
    expect(await query(two.connectionString, "select 1 as one")).toEqual([{ one: 1 }]);
    await two[Symbol.asyncDispose]();
    expect(processesIn(scratch.dataDir)).toEqual([]);
  });

  it("lies in a directory with a long name and odd letters, and listens in a short one", async () => {
    await using scratch = new Scratch();
    const dataDir = join(scratch.path, "d".repeat(180), "ein Ordner – mit 'Namen'");
    await using database = await openDatabase({ dataDir });
    expect(await query(database.connectionString, "select 1 as one")).toEqual([{ one: 1 }]);
  });

  it("leaves nothing when its folder is removed under it", async () => {
    await using scratch = await Scratch.withCluster();
    const database = await openDatabase({ dataDir: scratch.dataDir });
    rmSync(scratch.dataDir, { recursive: true });
    await database[Symbol.asyncDispose]();
    expect(folderExists(scratch.dataDir)).toBe(false);
    expect(socketDirectories()).toEqual([]);
  });
});

describe("the real binaries", () => {
  it("run from a place of ours when npm ran no install scripts", async () => {
    await using scratch = new Scratch();
    const source = await findPlatformPackage();
    const nativeDir = join(scratch.path, "native");
    cpSync(source.nativeDir, nativeDir, { recursive: true, filter: (path) => !lstatSync(path).isSymbolicLink() });
    const program = (directory: string): string => join(directory, "bin", "postgres");
    expect(() => execFileSync(program(nativeDir), ["--version"], { stdio: "pipe" })).toThrow("shared librar");

    const runtime = await prepareRuntime(
      { ...source, nativeDir },
      { ...thisUser(), dropped: false },
      {
        runtimesDir: join(scratch.path, "postgres.runtime"),
        sharedDir: join(scratch.path, "shared"),
      },
    );
    expect(execFileSync(program(runtime), ["--version"], { encoding: "utf8" })).toContain("PostgreSQL) 18.");
  });
});

describe.runIf(isRoot)("as root", () => {
  it("runs the server as nobody", async () => {
    await using scratch = new Scratch();
    await using database = await openDatabase({ dataDir: scratch.dataDir });
    expect(database.kind === "embedded" && statSync(`/proc/${database.serverPid}`).uid).toBe(65_534);
  });

  it("keeps the data where it was told to, also where nobody cannot walk", async () => {
    await using scratch = await Scratch.withCluster(0o700);
    const { dataDir } = scratch;
    await using database = await openDatabase({ dataDir });
    expect(await query(database.connectionString, "select 1 as one")).toEqual([{ one: 1 }]);
    expect(readdirSync(join(dataDir, "postgres"))).toContain("PG_VERSION");
  });

  it("gives a cluster that root restored from a copy back to the server's user", async () => {
    await using scratch = await Scratch.withCluster();
    const cluster = join(scratch.dataDir, "postgres");
    chmodSync(cluster, 0o755);
    expect(statSync(join(cluster, "PG_VERSION")).uid).toBe(0);
    await using database = await openDatabase({ dataDir: scratch.dataDir });
    expect(await query(database.connectionString, "select 1 as one")).toEqual([{ one: 1 }]);
    expect(statSync(join(cluster, "PG_VERSION")).uid).toBe(65_534);
    expect(statSync(cluster).mode & 0o777).toBe(0o700);
  });

  it("opens a copy of a directory in use beside it, and leaves the original its socket", async () => {
    await using scratch = await Scratch.withCluster();
    const copy = join(scratch.path, "copy");
    const node = new DatabaseNode({ dataDir: scratch.dataDir });
    const original = await node.opened();
    await query(original.connectionString, "create table kept (line text)");
    cpSync(scratch.dataDir, copy, { recursive: true });
    {
      await using copied = await openDatabase({ dataDir: copy });
      expect(copied).toMatchObject({ kind: "embedded", origin: "started" });
      expect(copied.connectionString).not.toBe(original.connectionString);
      await query(copied.connectionString, "insert into kept values ('only here')");
      expect(await query(original.connectionString, "select * from kept")).toEqual([]);
    }
    expect(await query(original.connectionString, "select * from kept")).toEqual([]);
    await node.leave();
    await using again = await openDatabase({ dataDir: copy });
    expect(await query(again.connectionString, "select line from kept")).toEqual([{ line: "only here" }]);
  });

  it("works the same for an ordinary user", async () => {
    await using scratch = new Scratch();
    const [home, temporary] = [join(scratch.path, "home"), join(scratch.path, "tmp")];
    for (const path of [home, temporary]) {
      mkdirSync(path, { mode: 0o700 });
      chownSync(path, 65_534, 65_534);
    }
    const node = new DatabaseNode({ dataDir: join(home, "data"), uid: 65_534, temporary });
    const { connectionString, origin } = await node.opened();
    expect(origin).toBe("created");
    expect(await query(connectionString, "select 1 as one")).toEqual([{ one: 1 }]);
    await node.leave();
    expect(readdirSync(temporary)).toEqual([]);
  });
});
