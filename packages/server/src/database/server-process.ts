/** Starts and stops the server process. The caller holds the lock. */
import { spawn, type ChildProcess } from "node:child_process";
import { readdir, readlink } from "node:fs/promises";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { databaseError, errorCode, failureOf, fileError, serverError } from "./database-error.ts";
import type { Layout } from "./layout.ts";
import { identify, judge, type ProcessIdentity } from "./process-identity.ts";
import { SERVER_ENVIRONMENT } from "./cluster.ts";
import { logSize, openLog, readLog, shortenLog } from "./server-log.ts";
import {
  findRunning,
  readPostmasterFile,
  removeMisleadingPidFile,
  worksIn,
  writeRecord,
  type RunningServer,
} from "./server-record.ts";
import { directoryArgument, spawnAs, type ServerUser } from "./server-user.ts";
import { SOCKET_PORT } from "./socket-directory.ts";

export interface StartOptions {
  readonly layout: Layout;
  readonly user: ServerUser;
  readonly runtimeDir: string;
  readonly socketDir: string;
}

const LOOK_EVERY_MS = 10;
/** Recovery after a crash replays at most `max_wal_size`. */
const START_PATIENCE_MS = 300_000;
/** Processes of a crashed server notice its death by themselves, unless a statement keeps them busy. */
const LEFTOVER_PATIENCE_MS = 10_000;
const END_LEFTOVERS_AFTER_MS = 1_500;
const RETRY_EVERY_MS = 250;

export async function startServer(options: StartOptions): Promise<RunningServer> {
  const { layout, socketDir } = options;
  const startedAtMs = performance.now();
  await writeRecord(layout, { socketDir, server: null });
  for (;;) {
    await removeMisleadingPidFile(layout);
    try {
      const server = await startOnce(options);
      await writeRecord(layout, { socketDir, server });
      return { socketDir, server };
    } catch (error) {
      const waitedMs = performance.now() - startedAtMs;
      if (failureOf(error) !== "held_by_another_server" || waitedMs > LEFTOVER_PATIENCE_MS) {
        throw error;
      }
      const other = await findRunning(layout);
      if (other !== null && (await becomesReady(layout, other.server))) {
        // Started for our record by a node that died before it could complete it.
        await writeRecord(layout, other);
        return other;
      }
      if (waitedMs > END_LEFTOVERS_AFTER_MS) {
        await endLeftovers(layout.clusterDir);
      }
      await sleep(RETRY_EVERY_MS);
    }
  }
}

async function startOnce(options: StartOptions): Promise<ProcessIdentity> {
  const { layout } = options;
  await shortenLog(layout.logFile);
  const from = await logSize(layout.logFile);
  const child = await spawnServer(options);
  try {
    const server = await untilListening(layout, child);
    child.unref();
    return server;
  } catch (error) {
    child.kill("SIGQUIT");
    throw fileErrorOrLog(error, await readLog(layout.logFile, from));
  }
}

class EndedEarly extends Error {}

function fileErrorOrLog(error: unknown, printed: string): Error {
  return error instanceof EndedEarly
    ? serverError(printed, "start the database")
    : fileError(error, "start the database");
}

async function spawnServer({ layout, user, runtimeDir, socketDir }: StartOptions): Promise<ChildProcess> {
  const log = await openLog(layout.logFile);
  try {
    const child = spawn(
      join(runtimeDir, "bin", "postgres"),
      [
        "-D",
        await directoryArgument(layout.clusterDir, user),
        "-k",
        socketDir,
        "-p",
        String(SOCKET_PORT),
        "-c",
        "listen_addresses=",
      ],
      {
        cwd: layout.clusterDir,
        env: SERVER_ENVIRONMENT,
        // In a session of its own: it outlives this process, and Ctrl-C in the terminal does not reach it.
        detached: true,
        stdio: ["ignore", log.fd, log.fd],
        ...spawnAs(user),
      },
    );
    await new Promise<void>((resolve, reject) => {
      child.once("spawn", resolve);
      child.once("error", reject);
    });
    return child;
  } catch (error) {
    throw errorCode(error) === "EACCES"
      ? databaseError(
          "no_permission",
          `The system does not let user id ${user.uid} run ${join(runtimeDir, "bin")}. Is that disk mounted with noexec?`,
          error,
        )
      : fileError(error, `run the database server in ${runtimeDir}`);
  } finally {
    await log.close();
  }
}

async function untilListening(layout: Layout, child: ChildProcess): Promise<ProcessIdentity> {
  const deadlineMs = performance.now() + START_PATIENCE_MS;
  const { pid } = child;
  while (pid !== undefined && performance.now() < deadlineMs) {
    if (child.exitCode !== null || child.signalCode !== null) {
      throw new EndedEarly();
    }
    const file = await readPostmasterFile(layout.clusterDir);
    if (file?.pid === pid && file.status === "ready") {
      const server = await identify(pid);
      if (server !== null) {
        return server;
      }
    }
    await sleep(LOOK_EVERY_MS);
  }
  throw databaseError(
    "start_failed",
    `The database did not become ready within ${START_PATIENCE_MS / 1_000} s. Its log is ${layout.logFile}.`,
  );
}

/** Waits for a server somebody else started; false when it ends instead. */
export async function becomesReady(layout: Layout, server: ProcessIdentity): Promise<boolean> {
  const deadlineMs = performance.now() + START_PATIENCE_MS;
  while (performance.now() < deadlineMs) {
    const file = await readPostmasterFile(layout.clusterDir);
    if (file?.pid === server.pid && file.status === "ready") {
      return true;
    }
    if ((await judge(server)) !== "alive") {
      return false;
    }
    await sleep(LOOK_EVERY_MS);
  }
  throw databaseError(
    "start_failed",
    `The database server (pid ${server.pid}) did not become ready within ${START_PATIENCE_MS / 1_000} s. Its log is ${layout.logFile}.`,
  );
}

/** SIGINT ends sessions and writes everything down; SIGQUIT is like a crash, recovered at the next start. */
const STOP_PATIENCE_MS = { SIGINT: 30_000, SIGQUIT: 10_000 } as const;

type StopSignal = keyof typeof STOP_PATIENCE_MS;

export async function stopServer(
  server: ProcessIdentity,
  signals: readonly StopSignal[] = ["SIGINT", "SIGQUIT"],
): Promise<void> {
  for (const signal of signals) {
    const deadlineMs = performance.now() + STOP_PATIENCE_MS[signal];
    send(server.pid, (await judge(server)) === "alive" ? signal : null);
    while (performance.now() < deadlineMs) {
      if ((await judge(server)) !== "alive") {
        return;
      }
      await sleep(LOOK_EVERY_MS);
    }
  }
  throw databaseError(
    "stop_failed",
    `The database server (pid ${server.pid}) did not stop. End it by hand: kill -QUIT ${server.pid}`,
  );
}

function send(pid: number, signal: StopSignal | null): void {
  try {
    if (signal !== null) {
      process.kill(pid, signal);
    }
  } catch (error) {
    if (errorCode(error) !== "ESRCH") {
      throw fileError(error, `stop the database server (pid ${pid})`);
    }
  }
}

/** Sessions that outlive a killed server hold its shared memory, and no new server starts beside them. */
async function endLeftovers(clusterDir: string): Promise<void> {
  if (process.platform !== "linux") {
    return;
  }
  for (const name of await readdir("/proc")) {
    const pid = Number(name);
    if (Number.isSafeInteger(pid) && (await isPostgres(pid)) && (await worksIn(pid, clusterDir))) {
      try {
        process.kill(pid, "SIGQUIT");
      } catch {
        // It ended by itself.
      }
    }
  }
}

async function isPostgres(pid: number): Promise<boolean> {
  const program = await readlink(`/proc/${pid}/exe`).catch(() => "");
  // The kernel appends " (deleted)" when an upgrade replaced the file.
  return basename(program).split(" ")[0] === "postgres";
}
