/**
 * The only places an engine process may write. Each session has its own, readable by nobody else, and everything the
 * engine keeps on disk lies below it, so that removing one directory removes all traces of a session.
 */
import { mkdir, mkdtemp, readdir, rm } from "node:fs/promises";
import { join } from "node:path";

export interface PrivateDirectories {
  readonly root: string;
  readonly home: string;
  readonly config: string;
  readonly temporary: string;
}

// Short names: the engine puts sockets below the temporary one, and a socket's path ends at 107 bytes.
const PREFIX = "c";
const OWNED = /^c(\d+)-/;

/** Made by this process and not yet removed. Where every worker is process 1, the number alone says nothing. */
const mine = new Set<string>();

export async function makePrivateDirectories(scratchDir: string): Promise<PrivateDirectories> {
  await mkdir(scratchDir, { recursive: true, mode: 0o700 });
  const root = await mkdtemp(join(scratchDir, `${PREFIX}${process.pid}-`));
  mine.add(root);
  const at = (name: string): string => join(root, name);
  const directories = { root, home: at("h"), config: at("c"), temporary: at("t") };
  const { home, config, temporary } = directories;
  await Promise.all([home, config, temporary].map((path) => mkdir(path, { mode: 0o700 })));
  return directories;
}

/** The engine may still be closing files while its directory goes. */
export async function removePrivateDirectories(root: string): Promise<void> {
  await rm(root, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
  mine.delete(root);
}

/** Removes what workers left behind that were killed before they could. */
export async function sweepAbandoned(scratchDir: string): Promise<void> {
  const names = await readdir(scratchDir).catch(() => []);
  for (const name of names) {
    const owner = OWNED.exec(name)?.[1];
    const root = join(scratchDir, name);
    if (owner !== undefined && !isInUse(root, Number(owner))) {
      await removePrivateDirectories(root);
    }
  }
}

function isInUse(root: string, pid: number): boolean {
  if (pid === process.pid) {
    return mine.has(root);
  }
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && "code" in error && error.code === "EPERM";
  }
}
