/**
 * What we know about the running server, and what the server itself says (`postmaster.pid`). The record is written
 * before the server is started and completed afterwards: a node that dies in between leaves enough to recognise it.
 */
import { execFile } from "node:child_process";
import { open, readFile, rename, rm, stat } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { databaseError, errorCode } from "./database-error.ts";
import type { Layout } from "./layout.ts";
import { identify, parseIdentity, type ProcessIdentity } from "./process-identity.ts";

export interface ServerRecord {
  readonly socketDir: string;
  /** Null while it is being started. */
  readonly server: ProcessIdentity | null;
}

export interface RunningServer {
  readonly socketDir: string;
  readonly server: ProcessIdentity;
}

export async function readRecord(layout: Layout): Promise<ServerRecord | null> {
  try {
    const value: unknown = JSON.parse(await readFile(layout.serverFile, "utf8"));
    if (typeof value === "object" && value !== null && "socketDir" in value && typeof value.socketDir === "string") {
      return { socketDir: value.socketDir, server: parseIdentity("server" in value ? value.server : null) };
    }
    return null;
  } catch {
    // Absent, or cut off by a crash of the machine, after which no server runs either.
    return null;
  }
}

export async function writeRecord(layout: Layout, record: ServerRecord): Promise<void> {
  const draft = `${layout.serverFile}.draft`;
  const file = await open(draft, "w", 0o600);
  try {
    await file.writeFile(JSON.stringify(record));
  } finally {
    await file.close();
  }
  await rename(draft, layout.serverFile);
}

export async function removeRecord(layout: Layout): Promise<void> {
  await rm(layout.serverFile, { force: true });
}

export interface PostmasterFile {
  readonly pid: number;
  readonly socketDir: string;
  /** `starting`, `stopping`, `ready`, `standby`; empty at the very beginning. */
  readonly status: string;
}

export function parsePostmasterFile(text: string): PostmasterFile | null {
  const lines = text.split("\n").map((line) => line.trim());
  const pid = Number(lines[0]);
  return Number.isSafeInteger(pid) && pid > 0 ? { pid, socketDir: lines[4] ?? "", status: lines[7] ?? "" } : null;
}

export async function readPostmasterFile(clusterDir: string): Promise<PostmasterFile | null> {
  try {
    return parsePostmasterFile(await readFile(join(clusterDir, "postmaster.pid"), "utf8"));
  } catch (error) {
    if (errorCode(error) === "ENOENT") {
      return null;
    }
    throw error;
  }
}

/**
 * Our server if it runs. A pid file that names a dead process or one that is no server of this cluster is worth
 * nothing; one that names a living server we did not start is an error, because two would destroy the cluster.
 */
export async function findRunning(layout: Layout): Promise<RunningServer | null> {
  const file = await readPostmasterFile(layout.clusterDir);
  if (file === null || !(await worksIn(file.pid, layout.clusterDir))) {
    return null;
  }
  const record = await readRecord(layout);
  const server = await identify(file.pid);
  if (server === null) {
    return null;
  }
  if (file.socketDir === "" && record?.server === null) {
    // It was started for this record a moment ago and has not written where it listens.
    return { socketDir: record.socketDir, server };
  }
  if (record === null || record.socketDir !== file.socketDir) {
    throw databaseError(
      "held_by_another_server",
      `A PostgreSQL server that Signalbox did not start (pid ${file.pid}) is using ${layout.clusterDir}. Stop it, or set DATABASE_URL to use it.`,
    );
  }
  return { socketDir: record.socketDir, server };
}

/**
 * A reused pid makes PostgreSQL refuse to start when that process has the same user. The file is removed only then; in
 * every other case the server judges its own file, and it always checks for leftover processes in shared memory.
 */
export async function removeMisleadingPidFile(layout: Layout): Promise<void> {
  const file = await readPostmasterFile(layout.clusterDir);
  if (file !== null && (await identify(file.pid)) !== null && !(await worksIn(file.pid, layout.clusterDir))) {
    await rm(join(layout.clusterDir, "postmaster.pid"), { force: true });
  }
}

/** Whether the process is a server of this cluster: all of them have it as their working directory. */
export async function worksIn(pid: number, clusterDir: string): Promise<boolean> {
  if (process.platform !== "linux") {
    return commandNames(pid, clusterDir);
  }
  try {
    const [at, cluster] = await Promise.all([stat(`/proc/${pid}/cwd`), stat(clusterDir)]);
    return at.dev === cluster.dev && at.ino === cluster.ino;
  } catch {
    return false;
  }
}

async function commandNames(pid: number, clusterDir: string): Promise<boolean> {
  try {
    const { stdout } = await promisify(execFile)("ps", ["-o", "command=", "-p", String(pid)]);
    return stdout.includes("postgres") && stdout.includes(clusterDir);
  } catch {
    return false;
  }
}
