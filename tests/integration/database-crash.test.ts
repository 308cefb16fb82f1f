import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "pg";
import { afterEach, describe, expect, it, vi } from "vitest";
import { openDatabase, type Database } from "../../packages/server/src/database/open-database.ts";
import {
  DatabaseNode,
  isRunning,
  killAllNodes,
  PATIENCE_MS,
  query,
  Scratch,
  socketDirectories,
  untilGone,
} from "./database-processes.ts";

afterEach(killAllNodes);

const eventually = { timeout: PATIENCE_MS, interval: 50 };

describe("when a node is killed", () => {
  it("finds its server warm at its next start", async () => {
    await using scratch = await Scratch.withCluster();
    const node = new DatabaseNode({ dataDir: scratch.dataDir, abandonedAfterMs: 60_000 });
    const before = await node.opened();
    await query(before.connectionString, "create table kept as select 7 as number");
    await node.kill();

    const again = new DatabaseNode({ dataDir: scratch.dataDir, abandonedAfterMs: 1_000 });
    const after = await again.opened();
    expect(after).toMatchObject({ origin: "attached", serverPid: before.serverPid });
    expect(await query(after.connectionString, "select number from kept")).toEqual([{ number: 7 }]);
    await again.leave();
    // The dead node's entry did not keep the server alive.
    expect(await isRunning(before.serverPid)).toBe(false);
  });

  it("the server stops by itself when nobody comes", async () => {
    await using scratch = await Scratch.withCluster();
    const node = new DatabaseNode({ dataDir: scratch.dataDir, abandonedAfterMs: 1_000 });
    const { serverPid } = await node.opened();
    await node.kill();
    await untilGone(serverPid);
    await vi.waitFor(() => expect(socketDirectories()).toEqual([]), eventually);
  });

  it("the server stays for the others", async () => {
    await using scratch = await Scratch.withCluster();
    const victim = new DatabaseNode({ dataDir: scratch.dataDir, abandonedAfterMs: 1_000 });
    const { serverPid } = await victim.opened();
    await using database = await openDatabase({ dataDir: scratch.dataDir });
    const nodes = join(scratch.dataDir, "postgres.run", "nodes");
    expect(readdirSync(nodes)).toHaveLength(2);
    await victim.kill();
    // The dead node's watch has looked when its entry is gone.
    await vi.waitFor(() => expect(readdirSync(nodes)).toHaveLength(1), eventually);
    expect(await isRunning(serverPid)).toBe(true);
    expect(await query(database.connectionString, "select 1 as one")).toEqual([{ one: 1 }]);
  });

  it("while it makes the cluster, nothing half-made is used", async () => {
    await using scratch = new Scratch();
    mkdirSync(scratch.dataDir);
    const victim = new DatabaseNode({ dataDir: scratch.dataDir, abandonedAfterMs: 1_000 });
    await vi.waitFor(
      () => expect(readdirSync(scratch.dataDir).some((name) => name.startsWith("postgres.unfinished-"))).toBe(true),
      { ...eventually, interval: 5 },
    );
    await victim.kill();
    expect(existsSync(join(scratch.dataDir, "postgres"))).toBe(false);

    await using database = await openDatabase({ dataDir: scratch.dataDir });
    expect(database).toMatchObject({ origin: "created" });
    expect(readdirSync(scratch.dataDir).sort()).toEqual(["postgres", "postgres.run"]);
  });

  it("between starting the server and recording it, the next one recognises it", async () => {
    await using scratch = await Scratch.withCluster();
    const node = new DatabaseNode({ dataDir: scratch.dataDir, abandonedAfterMs: 1_000 });
    const { serverPid } = await node.opened();
    const record = join(scratch.dataDir, "postgres.run", "server.json");
    const { socketDir } = JSON.parse(readFileSync(record, "utf8")) as { readonly socketDir: string };
    writeFileSync(record, JSON.stringify({ socketDir, server: null }));
    await using database = await openDatabase({ dataDir: scratch.dataDir });
    expect(database).toMatchObject({ origin: "attached", serverPid });
    await node.leave();
  });
});

describe("when the server is killed", () => {
  it("it is there again at the same address, with every committed row", async () => {
    await using scratch = await Scratch.withCluster();
    await using database = await openDatabase({ dataDir: scratch.dataDir });
    expect(database.kind).toBe("embedded");
    const { connectionString } = database;
    await query(connectionString, "create table kept as select generate_series(1, 1000) as number");
    const before = pidOf(database);
    process.kill(before, "SIGKILL");

    await vi.waitFor(
      async () =>
        expect(await query(connectionString, "select count(*)::int as count from kept")).toEqual([{ count: 1_000 }]),
      eventually,
    );
    expect(pidOf(database)).not.toBe(before);
  });

  it("a session that is still busy does not keep the next one away", async () => {
    await using scratch = await Scratch.withCluster();
    await using database = await openDatabase({ dataDir: scratch.dataDir });
    const { connectionString } = database;
    const busy = new Client({ connectionString });
    busy.on("error", () => undefined);
    await busy.connect();
    // Counts without ever looking up: only such a session does not notice that its server is dead.
    const { rows } = await busy.query<{ pid: number }>("select pg_backend_pid() as pid");
    const counting = busy.query("select count(*) from generate_series(1, 100000000000)").catch(() => undefined);
    await vi.waitFor(
      async () =>
        expect(await query(connectionString, `select state from pg_stat_activity where pid = ${rows[0]!.pid}`)).toEqual(
          [{ state: "active" }],
        ),
      eventually,
    );
    process.kill(pidOf(database), "SIGKILL");
    await vi.waitFor(
      async () => expect(await query(connectionString, "select 1 as one")).toEqual([{ one: 1 }]),
      eventually,
    );
    expect(await isRunning(rows[0]!.pid)).toBe(false);
    await counting;
    await busy.end().catch(() => undefined);
  });

  it("together with its node, the next start recovers", async () => {
    await using scratch = await Scratch.withCluster();
    const node = new DatabaseNode({ dataDir: scratch.dataDir, abandonedAfterMs: 1_000 });
    const { serverPid, connectionString } = await node.opened();
    await query(connectionString, "create table kept as select 7 as number");
    process.kill(serverPid, "SIGKILL");
    await node.kill();

    await using database = await openDatabase({ dataDir: scratch.dataDir });
    expect(await query(database.connectionString, "select number from kept")).toEqual([{ number: 7 }]);
  });

  it("two nodes bring it back once", async () => {
    await using scratch = await Scratch.withCluster();
    await using one = await openDatabase({ dataDir: scratch.dataDir });
    await using two = await openDatabase({ dataDir: scratch.dataDir });
    const before = pidOf(one);
    process.kill(before, "SIGKILL");
    await vi.waitFor(async () => {
      expect(pidOf(one)).not.toBe(before);
      expect(pidOf(two)).toBe(pidOf(one));
      expect(await isRunning(pidOf(one))).toBe(true);
    }, eventually);
    expect(await query(two.connectionString, "select 1 as one")).toEqual([{ one: 1 }]);
  });
});

function pidOf(database: Database): number {
  if (database.kind !== "embedded") {
    throw new Error("expected an embedded database");
  }
  return database.serverPid;
}
