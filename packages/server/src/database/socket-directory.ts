/** The private directory of the server's socket: short, because the kernel takes 107 bytes and no more. */
import { chown, mkdir, mkdtemp, rm, rmdir, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { databaseError, errorCode, fileError } from "./database-error.ts";
import { canReach, type ServerUser } from "./server-user.ts";

export const SOCKET_PORT = 5432;

const SOCKET_NAME = `.s.PGSQL.${SOCKET_PORT}`;
const LONGEST_SOCKET_PATH_BYTES = process.platform === "darwin" ? 103 : 107;
const RANDOM_LENGTH = 6;
const DIRECTORY_PREFIX = "sbx-";

export function socketPath(socketDir: string): string {
  return join(socketDir, SOCKET_NAME);
}

/** `TMPDIR` first; `/tmp` where that is too long or closed to the server's user. */
export async function makeSocketDirectory(
  user: ServerUser,
  parents: readonly string[] = [tmpdir(), "/tmp"],
): Promise<string> {
  const fitting = parents.filter((parent) => fits(parent));
  if (fitting.length === 0) {
    throw databaseError(
      "path_too_long",
      `The path of the database socket would be longer than ${LONGEST_SOCKET_PATH_BYTES} bytes in ${parents.join(" and in ")}. Set TMPDIR to a shorter folder.`,
    );
  }
  let refusal: unknown = null;
  for (const parent of fitting) {
    const prefix = join(parent, DIRECTORY_PREFIX);
    try {
      if (!(await canReach(prefix, user))) {
        continue;
      }
      // Made with mode 0700: nobody else can put a socket of theirs in it.
      const directory = await mkdtemp(prefix);
      await giveTo(directory, user);
      return directory;
    } catch (error) {
      refusal = error;
    }
  }
  throw refusal === null
    ? databaseError(
        "no_permission",
        `User id ${user.uid} cannot enter ${fitting.join(" or ")}. Set TMPDIR to a folder open to everybody.`,
      )
    : fileError(refusal, `make a folder for the database socket in ${fitting.join(" or ")}`);
}

/** After a crash of the server its nodes go on with the same address, so the directory must be there again. */
export async function restoreSocketDirectory(directory: string, user: ServerUser): Promise<void> {
  try {
    await mkdir(directory, { mode: 0o700 });
    await giveTo(directory, user);
  } catch (error) {
    if (errorCode(error) !== "EEXIST") {
      throw fileError(error, `make the folder ${directory} for the database socket`);
    }
    if ((await stat(directory)).uid !== user.uid) {
      throw databaseError(
        "no_permission",
        `${directory}, where the database socket belongs, was taken by another user.`,
        error,
      );
    }
  }
}

/** Only what a server leaves in it: the name comes from a file, and whatever else it may lead to stays. */
export async function removeSocketDirectory(directory: string): Promise<void> {
  for (const name of [SOCKET_NAME, `${SOCKET_NAME}.lock`]) {
    await rm(join(directory, name), { force: true });
  }
  await rmdir(directory).catch(() => undefined);
}

async function giveTo(directory: string, user: ServerUser): Promise<void> {
  if (user.dropped) {
    await chown(directory, user.uid, user.gid);
  }
}

function fits(parent: string): boolean {
  const path = socketPath(join(parent, `${DIRECTORY_PREFIX}${"x".repeat(RANDOM_LENGTH)}`));
  return Buffer.byteLength(path) <= LONGEST_SOCKET_PATH_BYTES;
}
