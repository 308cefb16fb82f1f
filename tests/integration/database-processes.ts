/** Nodes as real processes, and what they leave behind. */
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { chmodSync, cpSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Client } from "pg";
import { afterAll, vi } from "vitest";
import { openDatabase } from "../../packages/server/src/database/open-database.ts";
import { identify } from "../../packages/server/src/database/process-identity.ts";

/** A bound, not an expectation: the machine may be busy with other files. */
export const PATIENCE_MS = 60_000;

export interface Opened {
  readonly origin: string;
  readonly serverPid: number;
  readonly connectionString: string;
  readonly tookMs: number;
}

export interface Refused {
  readonly reason: string;
  readonly detail: string;
}

type Line = Readonly<Record<string, unknown>>;

export interface NodeOptions {
  readonly dataDir: string;
  readonly abandonedAfterMs?: number;
  readonly uid?: number;
  readonly temporary?: string;
}

const PROGRAM = fileURLToPath(new URL("./database-node.ts", import.meta.url));
const started = new Set<DatabaseNode>();

export class DatabaseNode {
  readonly #child: ChildProcess;
  readonly #lines: Line[] = [];
  readonly #ended: Promise<void>;

  constructor(options: NodeOptions) {
    const { dataDir, abandonedAfterMs = 60_000, uid, temporary = tmpdir() } = options;
    this.#child = spawn(
      process.execPath,
      ["--conditions=@signalbox/source", PROGRAM, dataDir, String(abandonedAfterMs)],
      {
        stdio: ["pipe", "pipe", "inherit"],
        env: { PATH: process.env["PATH"], TMPDIR: temporary },
        ...(uid === undefined ? {} : { uid, gid: uid }),
      },
    );
    createInterface({ input: this.#child.stdout! }).on("line", (line) => {
      this.#lines.push(JSON.parse(line) as Line);
    });
    this.#child.stdin!.on("error", () => undefined);
    this.#ended = new Promise((resolve) => this.#child.once("close", () => resolve()));
    started.add(this);
  }

  get pid(): number {
    return this.#child.pid!;
  }

  steps(): readonly unknown[] {
    return this.#lines.flatMap((line) => ("step" in line ? [line["step"]] : []));
  }

  async opened(): Promise<Opened> {
    const line = await this.#line("opened", "refused");
    if ("refused" in line) {
      throw new Error(`the node was refused: ${String(line["detail"])}`);
    }
    return { ...line, origin: line["opened"] } as unknown as Opened;
  }

  async refused(): Promise<Refused> {
    const line = await this.#line("opened", "refused");
    if ("opened" in line) {
      throw new Error("the node opened the database and should have been refused");
    }
    await this.#ended;
    return { reason: String(line["refused"]), detail: String(line["detail"]) };
  }

  async leave(): Promise<void> {
    this.#child.stdin!.write("leave\n");
    await this.#line("left", "refused");
    await this.#ended;
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#ended;
  }

  async #line(...names: readonly string[]): Promise<Line> {
    return vi.waitFor(
      () => {
        const found = this.#lines.find((line) => names.some((name) => name in line));
        if (found === undefined) {
          throw new Error(`no line with ${names.join(" or ")} yet: ${JSON.stringify(this.#lines)}`);
        }
        return found;
      },
      { timeout: PATIENCE_MS, interval: 20 },
    );
  }
}

export async function killAllNodes(): Promise<void> {
  await Promise.all([...started].map((node) => node.kill()));
  started.clear();
}

/** Removes what it made, and fails when a process still works there. */
export class Scratch {
  readonly path: string;

  constructor(mode = 0o755) {
    this.path = realpathSync(mkdtempSync(join(tmpdir(), "db-")));
    chmodSync(this.path, mode);
  }

  get dataDir(): string {
    return join(this.path, "data");
  }

  /** With a cluster already in it, closed: making one takes a second of processor time, copying one takes none. */
  static async withCluster(mode?: number): Promise<Scratch> {
    const scratch = new Scratch(mode);
    cpSync(await preparedDataDir(), scratch.dataDir, { recursive: true });
    return scratch;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await killAllNodes();
    endWatches(this.path);
    try {
      await vi.waitFor(
        () => {
          const left = [...processesIn(this.path), ...socketDirectories()];
          if (left.length > 0) {
            throw new Error(`left behind: ${left.join(", ")}`);
          }
        },
        { timeout: PATIENCE_MS, interval: 50 },
      );
    } finally {
      rmSync(this.path, { recursive: true, force: true });
    }
  }
}

let prepared: Promise<Scratch> | null = null;

async function preparedDataDir(): Promise<string> {
  prepared ??= (async () => {
    const scratch = new Scratch();
    await (await openDatabase({ dataDir: scratch.dataDir }))[Symbol.asyncDispose]();
    return scratch;
  })();
  return (await prepared).dataDir;
}

afterAll(async () => {
  await (await prepared)?.[Symbol.asyncDispose]();
  prepared = null;
});

/** The watches of killed nodes that still wait before they look: a shell and its sleep, each pair a group of its own. */
function endWatches(path: string): void {
  for (const line of processesIn(path)) {
    if (line.includes("signalbox-database-watch")) {
      process.kill(-Number.parseInt(line, 10), "SIGKILL");
    }
  }
}

/** Touches a file once a second, as a living node in another container would. */
export function beatFromOutside(path: string): AsyncDisposable {
  const shell = spawn("/bin/sh", ["-c", 'while touch "$1"; do sleep 1; done', "beat", path], { stdio: "ignore" });
  return {
    async [Symbol.asyncDispose]() {
      const ended = once(shell, "exit");
      shell.kill("SIGKILL");
      await ended;
    },
  };
}

/** Every process that works below the folder or was started with its name. */
export function processesIn(path: string): readonly string[] {
  if (process.platform !== "linux") {
    return execFileSync("ps", ["-eo", "pid=,command="], { encoding: "utf8" })
      .split("\n")
      .filter((line) => line.includes(path));
  }
  return readdirSync("/proc").flatMap((pid) => {
    try {
      const command = readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
      return command.includes(path) || isBelow(`/proc/${pid}/cwd`, path) ? [`${pid}: ${command}`] : [];
    } catch {
      return [];
    }
  });
}

function isBelow(link: string, path: string): boolean {
  try {
    return realpathSync(link).startsWith(`${path}/`);
  } catch {
    return false;
  }
}

/** In this file's own temporary directory. */
export function socketDirectories(): readonly string[] {
  return readdirSync(tmpdir()).filter((name) => name.startsWith("sbx-"));
}

/** A process that only waits to be reaped does not run. */
export async function isRunning(pid: number): Promise<boolean> {
  return (await identify(pid)) !== null;
}

export async function untilGone(pid: number): Promise<void> {
  await vi.waitFor(
    async () => {
      if (await isRunning(pid)) {
        throw new Error(`process ${pid} still runs`);
      }
    },
    { timeout: PATIENCE_MS, interval: 20 },
  );
}

export async function query(connectionString: string, sql: string): Promise<readonly Line[]> {
  const client = new Client({ connectionString, connectionTimeoutMillis: 5_000 });
  client.on("error", () => undefined);
  await client.connect();
  try {
    const { rows } = await client.query<Line>(sql);
    return rows;
  } finally {
    await client.end();
  }
}

export function folderExists(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
}

export const isRoot = process.getuid?.() === 0;
