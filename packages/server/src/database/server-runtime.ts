/**
 * Makes the binaries usable: their library links must exist (the package creates them in an install script that may
 * not have run) and the server's user must reach them. Where node_modules does not offer that, a tree of our own does,
 * hard-linked where possible and copied where not. node_modules is never written to.
 */
import { constants } from "node:fs";
import { chmod, copyFile, link, lstat, mkdir, readdir, readFile, rename, rm, stat, symlink } from "node:fs/promises";
import { randomUUID } from "node:crypto";
import { basename, dirname, join, relative } from "node:path";
import { databaseError, errorCode } from "./database-error.ts";
import type { PlatformPackage } from "./platform-package.ts";
import { canReach, canRun, type ServerUser } from "./server-user.ts";

export interface RuntimePlaces {
  /** Beside the data, the first choice. */
  readonly runtimesDir: string;
  /** Only for root whose data directory cannot be entered by the server's user. */
  readonly sharedDir: string;
}

const DIRECTORY_MODE = 0o755;
const WRITABLE_BY_OTHERS = 0o022;

export const SHARED_RUNTIMES_DIR = "/var/cache/signalbox";

/** Returns the directory that holds a usable `bin/postgres`. */
export async function prepareRuntime(
  source: PlatformPackage,
  user: ServerUser,
  places: RuntimePlaces,
): Promise<string> {
  const links = await readLinks(source.nativeDir);
  if ((await allExist(source.nativeDir, links)) && (await usable(source.nativeDir, user))) {
    return source.nativeDir;
  }
  const ours = await canReach(places.runtimesDir, user);
  const parent = ours ? places.runtimesDir : places.sharedDir;
  const name = `${basename(source.name)}-${source.version}`;
  const target = join(parent, name);
  if (!(await exists(join(target, "bin", "postgres")))) {
    await openParent(parent);
    if (ours) {
      await removeOthers(parent, name);
    }
    await build({ from: source.nativeDir, to: target, links });
  }
  if (!(await usable(target, user))) {
    throw databaseError(
      "no_permission",
      `The database server runs as user id ${user.uid}, which cannot reach its program in ${target}. Make that folder accessible, or start Signalbox as an ordinary user.`,
    );
  }
  return target;
}

/** Others run what lies here with our rights, so nobody else may be able to put something here. */
async function openParent(parent: string): Promise<void> {
  await mkdir(parent, { recursive: true });
  const { uid, mode } = await stat(parent);
  if (uid !== process.getuid?.() || (mode & WRITABLE_BY_OTHERS) !== 0) {
    throw databaseError(
      "no_permission",
      `Others may write to ${parent}, where Signalbox keeps the database's program. Remove that folder and start again.`,
    );
  }
  await chmod(parent, DIRECTORY_MODE);
}

/** Earlier releases and unfinished builds. The caller holds the lock and no server of this data directory runs. */
async function removeOthers(parent: string, kept: string): Promise<void> {
  for (const name of await readdir(parent)) {
    if (name !== kept) {
      await rm(join(parent, name), { recursive: true, force: true });
    }
  }
}

interface LibraryLink {
  /** Both relative to the native directory. */
  readonly existing: string;
  readonly made: string;
}

async function readLinks(nativeDir: string): Promise<readonly LibraryLink[]> {
  let list: unknown;
  try {
    list = JSON.parse(await readFile(join(nativeDir, "pg-symlinks.json"), "utf8"));
  } catch (error) {
    if (errorCode(error) === "ENOENT") {
      return [];
    }
    throw databaseError(
      "binaries_missing",
      `The embedded PostgreSQL in ${nativeDir} is damaged. Run npm install again.`,
      error,
    );
  }
  const entries: readonly unknown[] = Array.isArray(list) ? list : [];
  const links: LibraryLink[] = [];
  for (const entry of entries) {
    if (typeof entry === "object" && entry !== null && "source" in entry && "target" in entry) {
      links.push({ existing: inside(entry.source), made: inside(entry.target) });
    }
  }
  return links;
}

/** The list speaks of `native/lib/…`. */
function inside(path: unknown): string {
  const text = String(path);
  const below = text.startsWith("native/") ? text.slice("native/".length) : text;
  if (below.startsWith("/") || below.split("/").includes("..")) {
    throw databaseError("binaries_missing", `The embedded PostgreSQL names a file outside its package: ${text}.`);
  }
  return below;
}

async function allExist(nativeDir: string, links: readonly LibraryLink[]): Promise<boolean> {
  const found = await Promise.all(links.map(({ made }) => exists(join(nativeDir, made))));
  return found.every(Boolean);
}

async function usable(nativeDir: string, user: ServerUser): Promise<boolean> {
  return (await canRun(join(nativeDir, "bin", "postgres"), user)) && (await canRun(join(nativeDir, "lib"), user));
}

interface Build {
  readonly from: string;
  readonly to: string;
  readonly links: readonly LibraryLink[];
}

/** Built beside its place and renamed: a killed build leaves nothing that looks finished. */
async function build({ from, to, links }: Build): Promise<void> {
  const unfinished = `${to}.${randomUUID().slice(0, 8)}.unfinished`;
  try {
    await mirror(from, unfinished);
    for (const { existing, made } of links) {
      const place = join(unfinished, made);
      if (!(await exists(place))) {
        await symlink(relative(dirname(place), join(unfinished, existing)), place);
      }
    }
    await rename(unfinished, to);
  } catch (error) {
    const finishedByAnother = errorCode(error) === "ENOTEMPTY" || errorCode(error) === "EEXIST";
    if (!finishedByAnother) {
      throw error;
    }
  } finally {
    await rm(unfinished, { recursive: true, force: true });
  }
}

/** Static libraries and build descriptions: 2 MB nobody runs. */
const NOT_RUN = /\.a$|^pkgconfig$|^include$/;

async function mirror(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true });
  // mkdir is subject to the umask, and the server's user must get through.
  await chmod(to, DIRECTORY_MODE);
  for (const entry of await readdir(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (NOT_RUN.test(entry.name) || entry.isSymbolicLink()) {
      continue;
    }
    if (entry.isDirectory()) {
      await mirror(source, target);
    } else {
      await place(source, target);
    }
  }
}

async function place(source: string, target: string): Promise<void> {
  const { mode } = await lstat(source);
  const executable = (mode & 0o100) !== 0;
  const wanted = executable ? 0o755 : 0o644;
  // A hard link shares its mode with node_modules, which is not ours to change.
  if ((mode & wanted) === wanted) {
    try {
      await link(source, target);
      return;
    } catch {
      // Another file system, or links to other people's files are forbidden here: a copy does as well.
    }
  }
  await copyFile(source, target, constants.COPYFILE_FICLONE);
  await chmod(target, wanted);
}

async function exists(path: string): Promise<boolean> {
  return stat(path).then(
    () => true,
    () => false,
  );
}
