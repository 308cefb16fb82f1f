import { spawn } from "node:child_process";
import { Trouble } from "./trouble.mjs";

const TAIL_BYTES = 64 * 1024;
const KILL_AFTER_MS = 15_000;
const KILL_AFTER_INTERRUPT_MS = 5_000;
const PARENT_POLL_MS = 500;
const PARENT = process.ppid;
const FORWARDED = /** @type {const} */ (["SIGINT", "SIGTERM", "SIGHUP"]);

/**
 * @typedef {object} Outcome
 * @property {number} code exit code; 128 + signal number when it was killed
 * @property {string} tail the end of what it wrote
 * @property {boolean} timedOut
 * @property {boolean} interrupted true when somebody asked us to stop meanwhile
 */

/**
 * Runs a command to its end. Its output is shown as it comes, or only kept.
 * @param {readonly string[]} command
 * @param {{ cwd: string, env?: NodeJS.ProcessEnv, show?: boolean, timeoutMs: number }} options
 * @returns {Promise<Outcome>}
 */
export async function runToEnd(command, options) {
  const [file = "", ...args] = command;
  // A group of its own: a command that hangs is ended together with everything it started.
  const child = spawn(file, args, {
    cwd: options.cwd,
    env: options.env ?? process.env,
    stdio: ["ignore", "pipe", "pipe"],
    detached: true,
  });
  let tail = "";
  let timedOut = false;
  let interrupted = false;
  const signalGroup = (/** @type {NodeJS.Signals} */ signal) => endGroup(child.pid, signal);
  const killLater = (/** @type {number} */ afterMs) => void setTimeout(() => signalGroup("SIGKILL"), afterMs).unref();
  const forget = forwardSignals((signal) => {
    interrupted = true;
    signalGroup(signal);
    killLater(KILL_AFTER_INTERRUPT_MS);
  });
  const timer = setTimeout(() => {
    timedOut = true;
    signalGroup("SIGTERM");
    killLater(KILL_AFTER_MS);
  }, options.timeoutMs);
  for (const [stream, target] of /** @type {const} */ ([
    [child.stdout, process.stdout],
    [child.stderr, process.stderr],
  ])) {
    stream.on("data", (/** @type {Buffer} */ chunk) => {
      tail = (tail + chunk.toString("utf8")).slice(-TAIL_BYTES);
      if (options.show === true) {
        target.write(chunk);
      }
    });
  }
  try {
    const code = await endOf(child, file);
    return { code, tail, timedOut, interrupted };
  } finally {
    clearTimeout(timer);
    forget();
    // Whatever it left running ends with it.
    signalGroup("SIGKILL");
  }
}

/**
 * Hands the terminal over to a command and stays only to pass on signals.
 * @param {readonly string[]} command
 * @param {{ cwd: string, env: NodeJS.ProcessEnv }} options
 * @returns {Promise<number>}
 */
export async function handOver(command, options) {
  const [file = "", ...args] = command;
  // The channel tells the command that we are gone, however we went.
  const child = spawn(file, args, { ...options, stdio: ["inherit", "inherit", "inherit", "ipc"] });
  const forget = forwardSignals((signal) => {
    // A terminal has already told the whole foreground group.
    if (!(signal === "SIGINT" && process.stdin.isTTY)) {
      child.kill(signal);
    }
  });
  const unwatch = watchNpm(() => child.kill("SIGTERM"));
  try {
    return await endOf(child, file);
  } finally {
    unwatch();
    forget();
  }
}

/**
 * Calls when the npm that runs us is gone without having said so. Started by hand nobody is watched: whoever closes
 * the shell behind a background job means it to stay.
 * @param {() => void} gone
 * @returns {() => void}
 */
function watchNpm(gone) {
  if (process.env.npm_lifecycle_event === undefined) {
    return () => undefined;
  }
  const timer = setInterval(() => {
    if (process.ppid !== PARENT) {
      clearInterval(timer);
      gone();
    }
  }, PARENT_POLL_MS);
  return () => clearInterval(timer);
}

/**
 * @param {import("node:child_process").ChildProcess} child
 * @param {string} file
 * @returns {Promise<number>}
 */
function endOf(child, file) {
  return new Promise((resolve, reject) => {
    child.once("error", (error) => reject(new Trouble(`${file} could not be started: ${error.message}`)));
    child.once("close", (code, signal) => resolve(code ?? (signal === null ? 1 : codeOfSignal(signal))));
  });
}

/** @param {NodeJS.Signals} signal */
function codeOfSignal(signal) {
  return { SIGHUP: 129, SIGINT: 130, SIGKILL: 137, SIGTERM: 143 }[/** @type {"SIGHUP"} */ (signal)] ?? 1;
}

/**
 * @param {number | undefined} pid
 * @param {NodeJS.Signals} signal
 */
function endGroup(pid, signal) {
  if (pid === undefined) {
    return;
  }
  try {
    process.kill(-pid, signal);
  } catch {
    // The group is gone already.
  }
}

/**
 * @param {(signal: NodeJS.Signals) => void} pass
 * @returns {() => void}
 */
function forwardSignals(pass) {
  for (const signal of FORWARDED) {
    process.on(signal, pass);
  }
  return () => {
    for (const signal of FORWARDED) {
      process.off(signal, pass);
    }
  };
}
