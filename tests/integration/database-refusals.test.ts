import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, describe, expect, it, vi } from "vitest";
import { openDatabase } from "../../packages/server/src/database/open-database.ts";
import { findPlatformPackage } from "../../packages/server/src/database/platform-package.ts";
import { identifySelf } from "../../packages/server/src/database/process-identity.ts";
import {
  beatFromOutside,
  DatabaseNode,
  isRoot,
  killAllNodes,
  PATIENCE_MS,
  processesIn,
  Scratch,
} from "./database-processes.ts";

afterEach(killAllNodes);

async function refusal(dataDir: string): Promise<{ readonly reason: unknown; readonly detail: string }> {
  const thrown: unknown = await openDatabase({ dataDir }).catch((error: unknown) => error);
  expect(thrown).toMatchObject({ code: "database_unavailable" });
  const { extra, detail } = thrown as { readonly extra: { readonly reason: unknown }; readonly detail: string };
  return { reason: extra.reason, detail };
}

describe("the embedded database refuses with a sentence that helps", () => {
  it("a folder it may not write to", async () => {
    await using scratch = new Scratch(0o755);
    const closed = join(scratch.path, "closed");
    mkdirSync(closed, { mode: 0o555 });
    // Root may write anywhere, so root asks as somebody else.
    const node = new DatabaseNode({
      dataDir: join(closed, "data"),
      ...(isRoot ? { uid: 65_534, temporary: "/tmp" } : {}),
    });
    const { reason, detail } = await node.refused();
    expect(reason).toBe("no_permission");
    expect(detail).toContain(join(closed, "data"));
    expect(detail).toContain("SIGNALBOX_DATA_DIR");
    chmodSync(closed, 0o755);
    expect(readdirSync(closed)).toEqual([]);
  });

  it("a file where the folder should be", async () => {
    await using scratch = new Scratch();
    writeFileSync(scratch.dataDir, "");
    expect(await refusal(scratch.dataDir)).toMatchObject({
      reason: "no_permission",
      detail: expect.stringContaining("a file is in the way"),
    });
  });

  it("a path that PostgreSQL cannot take", async () => {
    await using scratch = new Scratch();
    const dataDir = join(scratch.path, ...Array.from({ length: 6 }, () => "d".repeat(200)));
    expect(await refusal(dataDir)).toMatchObject({ reason: "path_too_long" });
    expect(readdirSync(scratch.path)).toEqual([]);
  });

  it("a cluster of another major version, untouched", async () => {
    await using scratch = new Scratch();
    const cluster = join(scratch.dataDir, "postgres");
    mkdirSync(cluster, { recursive: true });
    writeFileSync(join(cluster, "PG_VERSION"), "17\n");
    const { reason, detail } = await refusal(scratch.dataDir);
    expect(reason).toBe("other_major_version");
    expect(detail).toMatch(/made by PostgreSQL 17 and this release brings 18/);
    expect(readdirSync(cluster)).toEqual(["PG_VERSION"]);
  });

  it("a folder full of something else, untouched", async () => {
    await using scratch = new Scratch();
    const cluster = join(scratch.dataDir, "postgres");
    mkdirSync(cluster, { recursive: true });
    writeFileSync(join(cluster, "letters.txt"), "dear …");
    expect(await refusal(scratch.dataDir)).toMatchObject({ reason: "not_a_cluster" });
    expect(readdirSync(cluster)).toEqual(["letters.txt"]);
  });

  it("a cluster that a server of somebody else is using", async () => {
    await using scratch = await Scratch.withCluster();
    const { dataDir } = scratch;
    const cluster = join(dataDir, "postgres");
    // A copy made by root belongs to root until it is opened.
    await (await openDatabase({ dataDir }))[Symbol.asyncDispose]();
    const { uid, gid } = statSync(cluster);
    const sockets = join(scratch.path, "s");
    mkdirSync(sockets);
    chownSync(sockets, uid, gid);
    const { nativeDir } = await findPlatformPackage();
    const other = spawn(join(nativeDir, "bin", "postgres"), ["-D", cluster, "-k", sockets], {
      cwd: cluster,
      stdio: "ignore",
      ...(isRoot ? { uid, gid } : {}),
    });
    try {
      await vi.waitFor(() => expect(existsSync(join(sockets, ".s.PGSQL.5432"))).toBe(true), { timeout: PATIENCE_MS });
      const { reason, detail } = await refusal(dataDir);
      expect(reason).toBe("held_by_another_server");
      expect(detail).toContain(`pid ${other.pid}`);
      expect(other.exitCode).toBeNull();
    } finally {
      const ended = once(other, "exit");
      other.kill("SIGQUIT");
      await ended;
    }
  });

  it("a data directory that a living node of another container uses", async () => {
    await using scratch = new Scratch();
    const nodes = join(scratch.dataDir, "postgres.run", "nodes");
    mkdirSync(nodes, { recursive: true });
    const entry = join(nodes, "7-elsewhere.json");
    const identity = { ...(await identifySelf()), pid: 7, pidNamespace: "pid:[1]", boot: "another", machine: "box-2" };
    writeFileSync(entry, JSON.stringify(identity));
    await using _beating = beatFromOutside(entry);
    expect(await refusal(scratch.dataDir)).toMatchObject({
      reason: "held_by_another_server",
      detail: expect.stringContaining("box-2"),
    });
  });

  it("a data directory that another machine uses, although it has another number there", async () => {
    await using scratch = new Scratch();
    const runDir = join(scratch.dataDir, "postgres.run");
    const entry = join(runDir, "nodes", "7-elsewhere.json");
    mkdirSync(join(runDir, "nodes"), { recursive: true });
    // Read from here alone, this would be a copy that was brought along from somewhere else.
    writeFileSync(join(runDir, "place"), "1:1\n");
    const identity = { ...(await identifySelf()), pid: 7, pidNamespace: "pid:[1]", boot: "another", machine: "box-2" };
    writeFileSync(entry, JSON.stringify(identity));
    await using _beating = beatFromOutside(entry);
    expect(await refusal(scratch.dataDir)).toMatchObject({ reason: "held_by_another_server" });
    expect(existsSync(entry)).toBe(true);
  });
});

describe.runIf(isRoot && process.platform === "linux")("on a full disk", () => {
  it("it says so before it begins", async () => {
    await using scratch = new Scratch();
    await using disk = new SmallDisk(scratch.path, "16m");
    const dataDir = join(disk.path, "data");
    const { reason, detail } = await refusal(dataDir);
    expect(reason).toBe("disk_full");
    expect(detail).toMatch(/has \d+ MB left and a new database needs 128 MB/);
    expect(readdirSync(dataDir)).toEqual(["postgres.run"]);
  });

  it("it says so while it makes the cluster, and leaves nothing half-made", async () => {
    await using scratch = new Scratch();
    await using disk = new SmallDisk(scratch.path, "133m");
    const dataDir = join(disk.path, "data");
    mkdirSync(dataDir);
    const filling = vi.waitFor(
      () => {
        if (!readdirSync(dataDir).some((name) => name.startsWith("postgres.unfinished-"))) {
          throw new Error("initdb has not begun");
        }
        execFileSync("fallocate", ["-l", "120m", join(disk.path, "ballast")]);
      },
      { timeout: PATIENCE_MS, interval: 2 },
    );
    const [outcome] = await Promise.all([refusal(dataDir), filling]);
    expect(outcome).toMatchObject({ reason: "disk_full", detail: expect.stringContaining("The disk is full") });
    expect(readdirSync(dataDir)).toEqual(["postgres.run"]);
    expect(processesIn(dataDir)).toEqual([]);
  });
});

class SmallDisk implements AsyncDisposable {
  readonly path: string;

  constructor(parent: string, size: string) {
    this.path = join(parent, "disk");
    mkdirSync(this.path);
    execFileSync("mount", ["-t", "tmpfs", "-o", `size=${size}`, "tmpfs", this.path]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    execFileSync("umount", [this.path]);
  }
}
