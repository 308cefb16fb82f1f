/**
 * What happens to the server, each as one step under the lock: a node enters, a node leaves, the server died under its
 * nodes. The last node out stops it; a dead node counts for nothing.
 */
import { constants } from "node:fs";
import { access, mkdir, realpath } from "node:fs/promises";
import { clusterExists, ensureCluster, systemIdentifier } from "./cluster.ts";
import { DATABASE_NAME, embeddedConfig, withClient } from "./connection.ts";
import { databaseError, errorCode, fileError } from "./database-error.ts";
import { layoutOf, type Layout } from "./layout.ts";
import { FileLock, removeDeadDrafts } from "./lock-file.ts";
import { livingNodes, NodeEntry } from "./node-register.ts";
import { findPlatformPackage } from "./platform-package.ts";
import { forgetElsewhere } from "./run-directory.ts";
import { judge } from "./process-identity.ts";
import { becomesReady, startServer, stopServer } from "./server-process.ts";
import { findRunning, readRecord, removeRecord, writeRecord, type RunningServer } from "./server-record.ts";
import { CREATE_DATABASE, WHICH_CLUSTER } from "./server-statements.ts";
import { prepareRuntime, SHARED_RUNTIMES_DIR } from "./server-runtime.ts";
import { chooseServerUser, ownerOf, thisUser, type ServerUser } from "./server-user.ts";
import { makeSocketDirectory, removeSocketDirectory, restoreSocketDirectory, socketPath } from "./socket-directory.ts";

/** What a person may want to see while they wait, and an operator in the log. */
export type DatabaseStep =
  | "waiting_for_another_process"
  | "creating"
  | "starting"
  | "restarting"
  | "restarted"
  | "restart_failed";

export type ReportStep = (step: DatabaseStep, error?: Error) => void;

/** How the server came to be there: with a new cluster, with an old one, or it was running already. */
export type ServerOrigin = "created" | "started" | "attached";

export interface Entered {
  readonly layout: Layout;
  readonly entry: NodeEntry;
  readonly running: RunningServer;
  readonly origin: ServerOrigin;
}

/** Another process may be making a cluster on a slow disk, or recovering a large one. */
const LOCK_PATIENCE_MS = 300_000;
const CONNECT_TIMEOUT_MS = 10_000;

export async function enter(dataDir: string, report: ReportStep): Promise<Entered> {
  const layout = await prepareFolders(dataDir);
  await using _held = await lock(layout, report);
  await removeDeadDrafts(layout.lockFile);
  const { elsewhere } = await livingNodes(layout.nodesDir);
  if (elsewhere.length > 0) {
    throw databaseError(
      "held_by_another_server",
      `Signalbox on another machine or in another container (${elsewhere[0]?.machine}) is using ${layout.dataDir}. One data directory serves one machine; to share a database, set DATABASE_URL on both.`,
    );
  }
  // Not before: where another machine is at work the same directory has another number.
  await forgetElsewhere(layout);
  const { here } = await livingNodes(layout.nodesDir);
  const entry = await NodeEntry.register(layout.nodesDir);
  try {
    return { layout, entry, ...(await ensureServing(layout, { report, shared: here.length > 0 })) };
  } catch (error) {
    await entry[Symbol.asyncDispose]();
    // What made us fail is the news; that there was nothing to stop is not.
    await stopIfUnused(layout).catch(() => undefined);
    throw error;
  }
}

export async function leave(layout: Layout, entry: NodeEntry, running: RunningServer): Promise<void> {
  try {
    await using _held = await lock(layout, () => undefined);
    await entry[Symbol.asyncDispose]();
    await stopIfUnused(layout);
  } catch (error) {
    if (errorCode(error) !== "ENOENT") {
      throw error;
    }
    await entry[Symbol.asyncDispose]();
    await endWithoutFolder(running);
  }
}

/** For a node that died: whoever is told of it later looks whether anybody is left. */
export async function leaveForTheDead(dataDir: string): Promise<void> {
  const layout = layoutOf(dataDir);
  await using _held = await lock(layout, () => undefined);
  await stopIfUnused(layout);
}

/** Never makes a cluster: a data directory that vanished under a running node is a loss, not a first start. */
export async function revive(layout: Layout, before: RunningServer, report: ReportStep): Promise<RunningServer> {
  await using _held = await lock(layout, report);
  if (!(await clusterExists(layout))) {
    throw databaseError("not_a_cluster", `The database in ${layout.clusterDir} is gone while Signalbox was running.`);
  }
  await writeRecord(layout, (await readRecord(layout)) ?? { socketDir: before.socketDir, server: null });
  const { running } = await ensureRunning(layout, { report: () => undefined, shared: true });
  return running;
}

export async function isServing(running: RunningServer): Promise<boolean> {
  return (await judge(running.server)) === "alive" && (await exists(socketPath(running.socketDir)));
}

const ATTEMPTS = 3;

async function ensureServing(layout: Layout, scene: Scene): Promise<Pick<Entered, "running" | "origin">> {
  for (let attempt = 1; ; attempt += 1) {
    const started = await ensureRunning(layout, scene);
    try {
      await demandOurDatabase(layout, started.running);
      return started;
    } catch (error) {
      // Killed at this very moment: nobody else can bring it back while we hold the lock.
      if (attempt === ATTEMPTS || (await isServing(started.running))) {
        throw fileError(error, `talk to the database server; its log is ${layout.logFile}`);
      }
    }
  }
}

interface Scene {
  readonly report: ReportStep;
  /** Other nodes know the address of the server, so it must keep it. */
  readonly shared: boolean;
}

async function ensureRunning(layout: Layout, { report, shared }: Scene): Promise<Pick<Entered, "running" | "origin">> {
  const user = chooseServerUser(thisUser(), await ownerOf(layout.clusterDir));
  const found = await findRunning(layout);
  if (found !== null && (await becomesReady(layout, found.server))) {
    if (await isServing(found)) {
      await writeRecord(layout, found);
      return { running: found, origin: "attached" };
    }
    // A cleaner of temporary files took its socket: nobody can reach it any more.
    await stopServer(found.server);
  }
  const source = await findPlatformPackage();
  const runtimeDir = await prepareRuntime(source, user, {
    runtimesDir: layout.runtimesDir,
    sharedDir: SHARED_RUNTIMES_DIR,
  });
  report((await clusterExists(layout)) ? "starting" : "creating");
  const origin = await ensureCluster({ layout, user, runtimeDir, major: source.major });
  const socketDir = await socketDirectory(layout, user, shared);
  const running = await startServer({ layout, user, runtimeDir, socketDir });
  return { running, origin: origin === "created" ? "created" : "started" };
}

async function socketDirectory(layout: Layout, user: ServerUser, shared: boolean): Promise<string> {
  const record = await readRecord(layout);
  if (record !== null && shared) {
    await restoreSocketDirectory(record.socketDir, user);
    return record.socketDir;
  }
  if (record !== null) {
    await removeSocketDirectory(record.socketDir);
  }
  return makeSocketDirectory(user);
}

/** The socket leads to this very cluster, and our database is in it. */
async function demandOurDatabase(layout: Layout, running: RunningServer): Promise<void> {
  const identifier = await systemIdentifier(layout.clusterDir);
  await withClient(embeddedConfig(running.socketDir, "postgres"), CONNECT_TIMEOUT_MS, async (client) => {
    const { rows } = await client.query<{ identifier: string; present: boolean }>(WHICH_CLUSTER, [DATABASE_NAME]);
    if (rows[0]?.identifier !== identifier) {
      throw databaseError(
        "held_by_another_server",
        `The server behind ${running.socketDir} serves another database than ${layout.clusterDir}. Stop it (pid ${running.server.pid}) and start again.`,
      );
    }
    if (!rows[0].present) {
      await client.query(CREATE_DATABASE);
    }
  });
}

async function stopIfUnused(layout: Layout): Promise<void> {
  const { here, elsewhere } = await livingNodes(layout.nodesDir);
  if (here.length + elsewhere.length > 0) {
    return;
  }
  const running = await findRunning(layout);
  if (running !== null) {
    await stopServer(running.server);
  }
  const record = await readRecord(layout);
  if (record !== null) {
    await removeSocketDirectory(record.socketDir);
    await removeRecord(layout);
  }
}

/** Somebody removed the data directory. The server would notice within a minute; its socket folder would stay. */
async function endWithoutFolder({ server, socketDir }: RunningServer): Promise<void> {
  await stopServer(server, ["SIGQUIT"]);
  await removeSocketDirectory(socketDir);
}

async function prepareFolders(dataDir: string): Promise<Layout> {
  const { dataDir: wanted } = layoutOf(dataDir);
  try {
    await mkdir(wanted, { recursive: true });
    const layout = layoutOf(await realpath(wanted));
    await mkdir(layout.runDir, { recursive: true, mode: 0o700 });
    await access(layout.runDir, constants.W_OK);
    return layout;
  } catch (error) {
    throw fileError(error, `use ${wanted} as its data directory`);
  }
}

async function lock(layout: Layout, report: ReportStep): Promise<FileLock> {
  return FileLock.acquire({
    path: layout.lockFile,
    patienceMs: LOCK_PATIENCE_MS,
    onWait: () => report("waiting_for_another_process"),
  });
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
