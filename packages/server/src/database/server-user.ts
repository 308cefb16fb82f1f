/**
 * Which user the server runs as. PostgreSQL refuses to run as root, so root drops to `nobody`, or to whoever owns the
 * cluster already. That user need not be able to walk to the data directory (see `directoryArgument`), but it must
 * be able to walk to the binaries.
 */
import { stat } from "node:fs/promises";
import { dirname } from "node:path";
import { databaseError, errorCode, USE_YOUR_OWN } from "./database-error.ts";

export interface ServerUser {
  readonly uid: number;
  readonly gid: number;
  /** True when the server runs as somebody else than this process. */
  readonly dropped: boolean;
}

export interface Owner {
  readonly uid: number;
  readonly gid: number;
}

const ROOT_UID = 0;
const NOBODY: Owner = { uid: 65_534, gid: 65_534 };

export function chooseServerUser(self: Owner, clusterOwner: Owner | null): ServerUser {
  if (self.uid !== ROOT_UID) {
    if (clusterOwner !== null && clusterOwner.uid !== self.uid) {
      throw databaseError(
        "no_permission",
        `The database belongs to user id ${clusterOwner.uid} and this process runs as ${self.uid}. Start Signalbox as that user or as root, or choose another SIGNALBOX_DATA_DIR.`,
      );
    }
    return { ...self, dropped: false };
  }
  if (process.platform !== "linux") {
    throw databaseError(
      "no_permission",
      `PostgreSQL does not run as root. Start Signalbox as an ordinary user, or ${USE_YOUR_OWN}.`,
    );
  }
  // A cluster that root restored from a copy belongs to root; `nobody` gets it back.
  const owner = clusterOwner === null || clusterOwner.uid === ROOT_UID ? NOBODY : clusterOwner;
  return { ...owner, dropped: true };
}

export function thisUser(): Owner {
  const uid = process.getuid?.();
  const gid = process.getgid?.();
  if (uid === undefined || gid === undefined) {
    throw databaseError("unsupported_platform", `The embedded PostgreSQL needs a Unix system: ${USE_YOUR_OWN}.`);
  }
  return { uid, gid };
}

export async function ownerOf(path: string): Promise<Owner | null> {
  try {
    const { uid, gid } = await stat(path);
    return { uid, gid };
  } catch (error) {
    if (errorCode(error) === "ENOENT") {
      return null;
    }
    throw error;
  }
}

/** Options for `spawn`. Node clears the supplementary groups when a uid is given. */
export function spawnAs(user: ServerUser): { readonly uid?: number; readonly gid?: number } {
  return user.dropped ? { uid: user.uid, gid: user.gid } : {};
}

/**
 * How the server is told its data directory, given that it is spawned with that directory as its working directory.
 * Root may keep its data below a directory that only root can enter (`/root`, a private temporary directory). The
 * working directory is set before the user is, and `/proc/self/cwd` leads to it without walking there.
 */
export async function directoryArgument(directory: string, user: ServerUser): Promise<string> {
  return (await canReach(directory, user)) ? directory : "/proc/self/cwd";
}

const EXECUTE = 0o1;
const READ_AND_EXECUTE = 0o5;

/** Whether the user may enter every directory above `path`. */
export async function canReach(path: string, user: ServerUser): Promise<boolean> {
  if (!user.dropped) {
    return true;
  }
  for (let parent = dirname(path); ; parent = dirname(parent)) {
    if (!(await allows(parent, user, EXECUTE))) {
      return false;
    }
    if (parent === dirname(parent)) {
      return true;
    }
  }
}

export async function canRun(path: string, user: ServerUser): Promise<boolean> {
  return !user.dropped || ((await canReach(path, user)) && (await allows(path, user, READ_AND_EXECUTE)));
}

async function allows(path: string, user: ServerUser, wanted: number): Promise<boolean> {
  const found = await stat(path);
  const shift = found.uid === user.uid ? 6 : found.gid === user.gid ? 3 : 0;
  return ((found.mode >> shift) & wanted) === wanted;
}
