import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { FileLock } from "../../packages/server/src/database/lock-file.ts";
import { identifySelf, type ProcessIdentity } from "../../packages/server/src/database/process-identity.ts";
import { openDatabase } from "../../packages/server/src/database/open-database.ts";
import { beatFromOutside, query, Scratch } from "./database-processes.ts";

const HOLDER = fileURLToPath(new URL("./database-lock-holder.ts", import.meta.url));
const PROCESSES = 4;
const TURNS = 20;

describe("the lock", () => {
  it("has one holder at a time, though every one of them dies holding it", async () => {
    await using scratch = new Scratch();
    const [path, journal] = [join(scratch.path, "lock"), join(scratch.path, "journal")];
    const dead = JSON.stringify(await aDeadProcess());
    writeFileSync(path, `{"id":"stale from the start","process":${dead}}`);
    const children = Array.from({ length: PROCESSES }, () =>
      spawn(process.execPath, ["--conditions=@signalbox/source", HOLDER, path, journal, String(TURNS), dead], {
        stdio: "inherit",
      }),
    );
    await Promise.all(children.map((child) => once(child, "exit")));
    expect(children.map(({ signalCode }) => signalCode)).toEqual(children.map(() => "SIGKILL"));

    const lines = readFileSync(journal, "utf8").trimEnd().split("\n");
    expect(lines).toHaveLength(2 * PROCESSES * TURNS);
    for (let line = 0; line < lines.length; line += 2) {
      expect(lines[line + 1]).toBe(lines[line]!.replace("in ", "out "));
    }
    await (await FileLock.acquire({ path, patienceMs: 1_000 }))[Symbol.asyncDispose]();
    expect(readdirSync(scratch.path)).toEqual(["journal"]);
  });

  it("is not removed by a rival who read the dead holder's name before somebody else took over", async () => {
    await using scratch = new Scratch();
    const path = join(scratch.path, "lock");
    const stale = holder(await aDeadProcess());
    writeFileSync(path, stale);
    const taken = await FileLock.acquire({ path, patienceMs: 1_000 });
    const living = readFileSync(path, "utf8");
    await FileLock.removeDead(path, stale);
    expect(readFileSync(path, "utf8")).toBe(living);
    await taken[Symbol.asyncDispose]();
  });

  it("is removed by one at a time, and the right to do so outlives no process", async () => {
    await using scratch = new Scratch();
    const path = join(scratch.path, "lock");
    const stale = holder(await aDeadProcess());
    writeFileSync(path, stale);
    const right = await FileLock.acquire({ path: `${path}.01234567`, patienceMs: 1_000 });
    await FileLock.removeDead(path, stale);
    expect(readFileSync(path, "utf8")).toBe(stale);
    await right[Symbol.asyncDispose]();

    writeFileSync(`${path}.01234567`, JSON.stringify({ id: "89abcdef", process: await aDeadProcess() }));
    await (await FileLock.acquire({ path, patienceMs: 1_000 }))[Symbol.asyncDispose]();
    expect(readdirSync(scratch.path)).toEqual([]);
  });

  it("is kept from others while its holder lives, and they are told who it is", async () => {
    await using scratch = new Scratch();
    const path = join(scratch.path, "lock");
    const held = await FileLock.acquire({ path, patienceMs: 1_000 });
    const told: number[] = [];
    const refusal = FileLock.acquire({ path, patienceMs: 200, onWait: (pid) => told.push(pid) });
    await expect(refusal).rejects.toMatchObject({ code: "database_unavailable", extra: { reason: "busy" } });
    await expect(refusal).rejects.toThrow(`pid ${process.pid}`);
    expect(told).toEqual([process.pid]);
    await held[Symbol.asyncDispose]();
    await (await FileLock.acquire({ path, patienceMs: 1_000 }))[Symbol.asyncDispose]();
  });

  const place = { machine: "elsewhere", boot: "another boot", pidNamespace: "pid:[1]" };
  const stale: readonly (readonly [string, (self: ProcessIdentity) => string])[] = [
    ["whose pid was given to another process", (self) => holder({ ...self, startedAt: "1" })],
    ["from before a restart of the machine", (self) => holder({ ...self, boot: "an earlier boot" })],
    ["cut off by a power failure", () => ""],
    ["of a container that is gone", (self) => holder({ ...self, ...place })],
  ];
  it.each(stale)("is taken over: one %s", async (_name, text) => {
    await using scratch = new Scratch();
    const path = join(scratch.path, "lock");
    writeFileSync(path, text(await identifySelf()));
    await (await FileLock.acquire({ path, patienceMs: 30_000 }))[Symbol.asyncDispose]();
    expect(readdirSync(scratch.path)).toEqual([]);
  });

  it("is not taken from another container whose heart beats", async () => {
    await using scratch = new Scratch();
    const path = join(scratch.path, "lock");
    writeFileSync(path, holder({ ...(await identifySelf()), ...place }));
    await using _beating = beatFromOutside(path);
    await expect(FileLock.acquire({ path, patienceMs: 100 })).rejects.toMatchObject({ extra: { reason: "busy" } });
  });

  it("left by a killed start does not keep the next one away", async () => {
    await using scratch = new Scratch();
    const runDir = join(scratch.dataDir, "postgres.run");
    mkdirSync(runDir, { recursive: true });
    writeFileSync(join(runDir, "lock"), holder(await aDeadProcess()));
    await using database = await openDatabase({ dataDir: scratch.dataDir });
    expect(await query(database.connectionString, "select 1 as one")).toEqual([{ one: 1 }]);
  });
});

function holder(process: ProcessIdentity): string {
  return JSON.stringify({ id: "0123456789", process });
}

async function aDeadProcess(): Promise<ProcessIdentity> {
  const child = spawn(process.execPath, ["--version"], { stdio: "ignore" });
  await once(child, "exit");
  return { ...(await identifySelf()), pid: child.pid! };
}
