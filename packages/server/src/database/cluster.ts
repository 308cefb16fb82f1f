/**
 * The cluster on disk: made beside its place and renamed into it, so that it is whole or absent; never made where
 * there is one, never made over something else. The caller holds the lock and knows that no server runs.
 */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { constants } from "node:fs";
import {
  appendFile,
  chmod,
  chown,
  lchown,
  mkdir,
  open,
  readdir,
  readFile,
  rename,
  rm,
  stat,
  statfs,
  writeFile,
} from "node:fs/promises";
import { endianness } from "node:os";
import { basename, dirname, join } from "node:path";
import { databaseError, errorCode, fileError, serverError, USE_YOUR_OWN } from "./database-error.ts";
import type { Layout } from "./layout.ts";
import { ACCESS_RULES, SETTINGS_FILE, SETTINGS_INCLUDE, settingsText } from "./server-settings.ts";
import { directoryArgument, spawnAs, type ServerUser } from "./server-user.ts";

export const SUPERUSER = "postgres";

export interface ClusterOptions {
  readonly layout: Layout;
  readonly user: ServerUser;
  readonly runtimeDir: string;
  /** Of the binaries; a cluster of another one cannot be opened by them. */
  readonly major: number;
}

export async function clusterExists(layout: Layout): Promise<boolean> {
  return (await clusterVersion(layout.clusterDir)) !== null;
}

/** Makes it when it is absent, and makes an existing one fit to be started. */
export async function ensureCluster(options: ClusterOptions): Promise<"created" | "found"> {
  const { layout, major } = options;
  await removeUnfinished(layout);
  const version = await clusterVersion(layout.clusterDir);
  if (version !== null && version !== String(major)) {
    throw databaseError(
      "other_major_version",
      `The database in ${layout.clusterDir} was made by PostgreSQL ${version} and this release brings ${major}. Dump it with PostgreSQL ${version} and load it here, or ${USE_YOUR_OWN}.`,
    );
  }
  if (version === null) {
    await refuseOtherContent(layout.clusterDir);
    await createCluster(options);
  }
  await restoreOwnership(layout.clusterDir, options.user);
  await writeOwned(join(layout.clusterDir, SETTINGS_FILE), settingsText(), options.user);
  return version === null ? "created" : "found";
}

/** A cluster's identity, as every copy of it has it too. */
export async function systemIdentifier(clusterDir: string): Promise<string> {
  const control = await readFile(join(clusterDir, "global", "pg_control"));
  return (endianness() === "LE" ? control.readBigUInt64LE(0) : control.readBigUInt64BE(0)).toString();
}

async function clusterVersion(clusterDir: string): Promise<string | null> {
  try {
    return (await readFile(join(clusterDir, "PG_VERSION"), "utf8")).trim();
  } catch (error) {
    if (errorCode(error) === "ENOENT") {
      return null;
    }
    throw fileError(error, `read the database in ${clusterDir}`);
  }
}

async function refuseOtherContent(clusterDir: string): Promise<void> {
  const content = await readdir(clusterDir).catch((error: unknown) => {
    if (errorCode(error) === "ENOENT") {
      return [];
    }
    throw fileError(error, `read ${clusterDir}`);
  });
  if (content.length > 0) {
    throw databaseError(
      "not_a_cluster",
      `${clusterDir} exists and is not a PostgreSQL data directory. Move it away, or choose another SIGNALBOX_DATA_DIR.`,
    );
  }
}

async function removeUnfinished({ dataDir, unfinishedPrefix }: Layout): Promise<void> {
  for (const name of await readdir(dataDir)) {
    if (name.startsWith(basename(unfinishedPrefix))) {
      // The initdb of a killed node may still be writing; it fails when its folder goes.
      await rm(join(dataDir, name), { recursive: true, force: true, maxRetries: 5 });
    }
  }
}

/** A new cluster has 48 MB; what follows must fit as well. */
const NEEDED_BYTES = 128 * 1024 * 1024;

async function createCluster({ layout, user, runtimeDir }: ClusterOptions): Promise<void> {
  await demandSpace(layout.dataDir);
  const unfinished = `${layout.unfinishedPrefix}${randomUUID().slice(0, 8)}`;
  try {
    await mkdir(unfinished, { mode: 0o700 });
    if (user.dropped) {
      await chown(unfinished, user.uid, user.gid);
    }
    await runInitdb({ runtimeDir, directory: unfinished, user });
    await appendFile(join(unfinished, "postgresql.conf"), SETTINGS_INCLUDE, { flag: APPEND_TO_FILE, flush: true });
    await writeOwned(join(unfinished, "pg_hba.conf"), ACCESS_RULES, user);
    await rename(unfinished, layout.clusterDir);
    await syncDirectory(dirname(layout.clusterDir));
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true });
    throw fileError(error, `create the database in ${layout.clusterDir}`);
  }
}

async function demandSpace(directory: string): Promise<void> {
  const { bavail, bsize } = await statfs(directory);
  const free = bavail * bsize;
  if (free < NEEDED_BYTES) {
    const megabytes = (bytes: number): number => Math.floor(bytes / (1024 * 1024));
    throw databaseError(
      "disk_full",
      `The disk of ${directory} has ${megabytes(free)} MB left and a new database needs ${megabytes(NEEDED_BYTES)} MB. Free some space and start again.`,
    );
  }
}

interface Initdb {
  readonly runtimeDir: string;
  readonly directory: string;
  readonly user: ServerUser;
}

async function runInitdb({ runtimeDir, directory, user }: Initdb): Promise<void> {
  const child = spawn(
    join(runtimeDir, "bin", "initdb"),
    [
      `--pgdata=${await directoryArgument(directory, user)}`,
      `--username=${SUPERUSER}`,
      "--auth=trust",
      "--encoding=UTF8",
      // Sorts alike on every machine and forever, whatever its C library does.
      "--locale-provider=builtin",
      "--builtin-locale=C.UTF-8",
      "--no-instructions",
      "--set=huge_pages=off",
    ],
    { cwd: directory, env: SERVER_ENVIRONMENT, stdio: ["ignore", "pipe", "pipe"], ...spawnAs(user) },
  );
  let printed = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      printed = (printed + text).slice(-KEPT_OUTPUT_CHARS);
    });
  }
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  if (code !== 0) {
    throw serverError(printed, "create the database");
  }
}

const KEPT_OUTPUT_CHARS = 16_384;

/** Nothing of ours: no secret of this process reaches the server. */
export const SERVER_ENVIRONMENT: Readonly<Record<string, string>> = {
  PATH: "/usr/local/bin:/usr/bin:/bin",
  LC_ALL: "C",
  TZ: "UTC",
};

/** Root may have brought the cluster back from a copy, which then belongs to root and is open to read. */
async function restoreOwnership(clusterDir: string, user: ServerUser): Promise<void> {
  const found = await stat(clusterDir);
  if (user.dropped && found.uid !== user.uid) {
    await giveTo(clusterDir, user);
  }
  if ((found.mode & 0o077) !== 0) {
    await chmod(clusterDir, 0o700);
  }
}

async function giveTo(path: string, user: ServerUser): Promise<void> {
  await lchown(path, user.uid, user.gid);
  for (const entry of await readdir(path, { withFileTypes: true })) {
    const child = join(path, entry.name);
    await (entry.isDirectory() ? giveTo(child, user) : lchown(child, user.uid, user.gid));
  }
}

/** Root must not be led elsewhere by a link that the server's user left in its own folder; nor must "wx" below. */
const APPEND_TO_FILE = constants.O_WRONLY | constants.O_APPEND | constants.O_NOFOLLOW;

async function writeOwned(path: string, text: string, user: ServerUser): Promise<void> {
  const draft = `${path}.draft`;
  await rm(draft, { force: true });
  await writeFile(draft, text, { flag: "wx", mode: 0o600, flush: true });
  if (user.dropped) {
    await lchown(draft, user.uid, user.gid);
  }
  await rename(draft, path);
}

async function syncDirectory(path: string): Promise<void> {
  const directory = await open(path, "r");
  try {
    await directory.sync();
  } finally {
    await directory.close();
  }
}
