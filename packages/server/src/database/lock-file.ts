/**
 * One holder at a time, across processes, with nothing but files. A lock is a hard link made in one step with its
 * holder's name already in it, so nobody sees a lock without a holder. A dead holder's lock is removed only by the one
 * process that holds the lock *on removing that very lock*; a rival who read the same dead name finds another name when
 * it looks again, and leaves it alone.
 */
import { randomUUID } from "node:crypto";
import { link, readdir, readFile, rm, unlink, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { databaseError, errorCode, fileError } from "./database-error.ts";
import { Heartbeat, stillBeats } from "./heartbeat.ts";
import { identifySelf, judge, parseIdentity, type ProcessIdentity } from "./process-identity.ts";

interface Holder {
  readonly id: string;
  readonly process: ProcessIdentity;
}

export interface LockOptions {
  readonly path: string;
  readonly patienceMs: number;
  /** Told once, when somebody alive holds the lock. */
  readonly onWait?: (holderPid: number) => void;
}

const SHORTEST_WAIT_MS = 20;
const LONGEST_WAIT_MS = 100;
/** Each level needs one more process to have died within the few instructions of a removal. */
const DEEPEST_REMOVAL = 4;

export class FileLock implements AsyncDisposable {
  readonly #path: string;
  readonly #id: string;
  readonly #heartbeat: Heartbeat;

  private constructor(path: string, id: string) {
    this.#path = path;
    this.#id = id;
    this.#heartbeat = new Heartbeat(path);
  }

  static async acquire(options: LockOptions): Promise<FileLock> {
    const deadlineMs = performance.now() + options.patienceMs;
    let waitMs = SHORTEST_WAIT_MS;
    let told = false;
    for (;;) {
      const outcome = await FileLock.#attempt(options.path, 0);
      if (outcome instanceof FileLock) {
        return outcome;
      }
      if (outcome !== null && !told) {
        told = true;
        options.onWait?.(outcome.pid);
      }
      if (performance.now() > deadlineMs) {
        throw heldTooLong(options, outcome);
      }
      await sleep(waitMs);
      waitMs = Math.min(waitMs * 1.5, LONGEST_WAIT_MS);
    }
  }

  /** The lock; or who holds it; or null when it changed hands meanwhile. */
  static async #attempt(path: string, depth: number): Promise<FileLock | ProcessIdentity | null> {
    const id = randomUUID();
    if (await create(path, id)) {
      return new FileLock(path, id);
    }
    const text = await readText(path);
    if (text === null) {
      return null;
    }
    const holder = parseHolder(text);
    // Links appear whole, so a lock nobody can read was cut off by a crash of the machine.
    if (holder !== null && (await isAlive(path, holder.process))) {
      return holder.process;
    }
    if (depth < DEEPEST_REMOVAL) {
      await FileLock.removeDead(path, text, depth);
    }
    return null;
  }

  /**
   * Removes the lock that reads `text`, whose holder is dead. The answer to "which one is there now" stays true until
   * the removal, because only the holder of the right below could change it.
   */
  static async removeDead(path: string, text: string, depth = 0): Promise<void> {
    const right = await FileLock.#attempt(`${path}.${removalName(text)}`, depth + 1);
    if (!(right instanceof FileLock)) {
      return;
    }
    try {
      if ((await readText(path)) === text) {
        await rm(path, { force: true });
      }
    } finally {
      await right[Symbol.asyncDispose]();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#heartbeat[Symbol.dispose]();
    const text = await readText(this.#path);
    if (text !== null && parseHolder(text)?.id === this.#id) {
      await rm(this.#path, { force: true });
    }
  }
}

const DRAFT_ENDING = ".draft";

/** What processes killed between writing and linking left beside the lock. */
export async function removeDeadDrafts(path: string): Promise<void> {
  const folder = dirname(path);
  for (const name of await readdir(folder)) {
    if (!name.startsWith(basename(path)) || !name.endsWith(DRAFT_ENDING)) {
      continue;
    }
    const draft = join(folder, name);
    const holder = parseHolder((await readText(draft)) ?? "");
    // One without a holder may be in the middle of being written.
    if (holder !== null && (await judge(holder.process)) === "dead") {
      await rm(draft, { force: true });
    }
  }
}

async function create(path: string, id: string): Promise<boolean> {
  const holder: Holder = { id, process: await identifySelf() };
  const draft = `${path}.${id}${DRAFT_ENDING}`;
  try {
    await writeFile(draft, JSON.stringify(holder), { flag: "wx", mode: 0o600 });
    await link(draft, path);
    return true;
  } catch (error) {
    if (errorCode(error) === "EEXIST") {
      return false;
    }
    throw error;
  } finally {
    await unlink(draft).catch(() => undefined);
  }
}

async function isAlive(path: string, holder: ProcessIdentity): Promise<boolean> {
  const judgement = await judge(holder);
  return judgement === "elsewhere" ? stillBeats(path) : judgement === "alive";
}

async function readText(path: string): Promise<string | null> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if (errorCode(error) === "ENOENT") {
      return null;
    }
    throw fileError(error, `read ${path}`);
  }
}

function parseHolder(text: string): Holder | null {
  try {
    const value: unknown = JSON.parse(text);
    const fields = new Map<string, unknown>(typeof value === "object" && value !== null ? Object.entries(value) : []);
    const id = fields.get("id");
    const process = parseIdentity(fields.get("process"));
    return typeof id === "string" && process !== null ? { id, process } : null;
  } catch {
    return null;
  }
}

function removalName(text: string): string {
  return parseHolder(text)?.id.slice(0, 8) ?? "unreadable";
}

function heldTooLong(options: LockOptions, holder: ProcessIdentity | null): Error {
  const who = holder === null ? "Other processes" : `Another Signalbox process (pid ${holder.pid})`;
  const seconds = Math.round(options.patienceMs / 1_000);
  return databaseError(
    "busy",
    `${who} kept the database lock ${options.path} for more than ${seconds} s. Wait until it has started or stopped the database, or end it, and start again.`,
  );
}
