import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { Trouble } from "./trouble.mjs";

const POLL_MS = 200;

/**
 * Lets one process at a time through: two starts at once must not install into the same folder. The file names the
 * process that is inside; a process that died inside does not block the next one.
 * @template T
 * @param {{ file: string, waitMs: number, say: (line: string) => void }} options
 * @param {() => Promise<T>} work
 * @returns {Promise<T>}
 */
export async function oneAtATime(options, work) {
  const mark = `${process.pid} ${startOf(process.pid) ?? "?"}\n`;
  await enter(options, mark);
  const leave = () => {
    if (readText(options.file) === mark) {
      rmSync(options.file, { force: true });
    }
  };
  process.once("exit", leave);
  try {
    return await work();
  } finally {
    process.off("exit", leave);
    leave();
  }
}

/**
 * @param {{ file: string, waitMs: number, say: (line: string) => void }} options
 * @param {string} mark
 */
async function enter(options, mark) {
  const deadlineMs = Date.now() + options.waitMs;
  let told = "";
  while (!tryEnter(options.file, mark)) {
    const inside = readText(options.file);
    if (inside === null) {
      continue;
    }
    if (!isAlive(inside)) {
      removeDead(options.file, inside);
      continue;
    }
    if (Date.now() > deadlineMs) {
      throw new Trouble(
        `Process ${pidOf(inside)} has been installing or building for too long; end it and start again.`,
      );
    }
    if (told !== inside) {
      told = inside;
      options.say(`process ${pidOf(inside)} is installing or building here; waiting for it`);
    }
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/**
 * The file appears with its content in one step, so nobody reads it half written.
 * @param {string} file
 * @param {string} mark
 */
function tryEnter(file, mark) {
  const draft = `${file}.${process.pid}`;
  try {
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(draft, mark);
    linkSync(draft, file);
    return true;
  } catch (error) {
    const code = /** @type {NodeJS.ErrnoException} */ (error).code ?? "";
    if (code === "EEXIST") {
      return false;
    }
    throw new Trouble(`${file} cannot be written (${code}); ${adviceFor(code)}.`);
  } finally {
    rmSync(draft, { force: true });
  }
}

/** @param {string} code */
function adviceFor(code) {
  return code === "ENOSPC" ? "the disk is full, make room and start again" : "start it as the owner of the folder";
}

/**
 * Two may find the same dead mark; the one that takes it away must not take the next one's.
 * @param {string} file
 * @param {string} mark
 */
function removeDead(file, mark) {
  const aside = `${file}.dead-${process.pid}`;
  try {
    renameSync(file, aside);
    if (readText(aside) !== mark) {
      linkSync(aside, file);
    }
  } catch {
    // Somebody else was quicker.
  } finally {
    rmSync(aside, { force: true });
  }
}

/** @param {string} mark */
function pidOf(mark) {
  return Number(mark.split(" ")[0]);
}

/** @param {string} mark */
function isAlive(mark) {
  const pid = pidOf(mark);
  const start = mark.split(" ")[1]?.trim();
  try {
    process.kill(pid, 0);
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === "EPERM";
  }
  const now = startOf(pid);
  return now === null || start === "?" || now === start;
}

/**
 * When a process started, where the system tells: a number may have been given to another process since.
 * @param {number} pid
 * @returns {string | null}
 */
function startOf(pid) {
  const stat = readText(`/proc/${pid}/stat`);
  return stat?.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? null;
}

/**
 * @param {string} file
 * @returns {string | null}
 */
function readText(file) {
  try {
    return readFileSync(file, "utf8");
  } catch {
    return null;
  }
}
