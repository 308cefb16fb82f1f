import { createHash } from "node:crypto";
import { accessSync, constants, existsSync, readFileSync, statfsSync, writeFileSync } from "node:fs";
import { delimiter, join } from "node:path";
import { runToEnd } from "./child.mjs";
import { pathWithoutTree, pinnedNode } from "./platform.mjs";
import { Trouble } from "./trouble.mjs";

const NEEDED_BYTES = 1.6e9;
const INSTALL_TIMEOUT_MS = 20 * 60_000;
const REMINDER_MS = 15_000;

/**
 * Why an install is needed, or null when what is installed is what the lock names.
 * @param {string} root
 * @returns {string | null}
 */
export function installReason(root) {
  const lock = readFileSync(join(root, "package-lock.json"), "utf8");
  if (!existsSync(join(root, "node_modules"))) {
    return "nothing is installed yet";
  }
  if (pinnedNode(root) === null) {
    return "the pinned Node is not installed";
  }
  if (readText(stampFile(root)) === stampOf(lock)) {
    return null;
  }
  const installed = readText(join(root, "node_modules", ".package-lock.json"));
  if (installed === null) {
    return "the last install did not finish";
  }
  const difference = lockDifference(
    /** @type {Lock} */ (JSON.parse(lock)),
    /** @type {Lock} */ (JSON.parse(installed)),
  );
  if (difference !== null) {
    return difference;
  }
  writeStamp(root, lock);
  return null;
}

/**
 * @typedef {{ packages: Record<string, { version?: string, optional?: boolean, link?: boolean }> }} Lock
 */

/**
 * What the installed tree lacks of what the lock names. Optional packages of other platforms are absent by design.
 * @param {Lock} wanted
 * @param {Lock} installed
 * @returns {string | null}
 */
export function lockDifference(wanted, installed) {
  for (const [path, entry] of Object.entries(wanted.packages)) {
    const found = installed.packages[path];
    if (!path.includes("node_modules/") || entry.link === true || (found === undefined && entry.optional === true)) {
      continue;
    }
    if (found?.version !== entry.version) {
      const name = path.slice(path.lastIndexOf("node_modules/") + "node_modules/".length);
      return `${name} ${entry.version ?? ""} is not what is installed`;
    }
  }
  return null;
}

/**
 * @param {string} root
 * @param {(line: string) => void} say
 */
export async function install(root, say) {
  checkRoom(root);
  const startedMs = Date.now();
  const seconds = () => Math.round((Date.now() - startedMs) / 1000);
  const reminder = setInterval(() => say(`still installing, ${seconds()} s`), REMINDER_MS);
  try {
    const flags = ["ci", "--include=dev", "--no-audit", "--no-fund", "--loglevel=error", "--progress=false"];
    const { code, tail, timedOut, interrupted } = await runToEnd([...npmCommand(root), ...flags], {
      cwd: root,
      env: { ...process.env, PATH: pathWithoutTree(root) },
      timeoutMs: INSTALL_TIMEOUT_MS,
    });
    if (interrupted) {
      throw new Trouble("Interrupted while installing; the next start installs again from the beginning.", 130);
    }
    if (code !== 0 || timedOut) {
      throw new Trouble(explainFailure(tail, timedOut));
    }
  } finally {
    clearInterval(reminder);
  }
  if (pinnedNode(root) === null) {
    throw new Trouble(
      "npm finished, but the pinned Node is missing: install scripts seem to be switched off. Allow them with `npm config set ignore-scripts false` and start again.",
    );
  }
  writeStamp(root, readFileSync(join(root, "package-lock.json"), "utf8"));
  say(`installed in ${seconds()} s`);
}

/** @type {readonly (readonly [RegExp, string])[]} */
const KNOWN_FAILURES = [
  [/\bENOSPC\b|no space left/i, "The disk is full. An install needs about 1.6 GB; make room and start again."],
  [
    /\b(EACCES|EPERM|EROFS)\b|permission denied|read-only file system/i,
    "npm may not write here. Check who owns this folder and your npm cache (`npm config get cache`), then start again.",
  ],
  [
    /\bEBADPLATFORM\b/,
    "A package has no build for this machine; Signalbox runs on Linux (glibc) and macOS, x64 and arm64.",
  ],
  [
    /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT)\b|network/i,
    "The package registry cannot be reached. The first install needs it; check the network, a proxy (`npm config get proxy`) or the registry (`npm config get registry`), then start again.",
  ],
  [/\b(E401|E403|ENEEDAUTH)\b/, "The package registry refuses this machine; check its credentials in your .npmrc."],
  [
    /\bEINTEGRITY\b/,
    "A downloaded package is not the one the lock names. Clear the cache with `npm cache clean --force` and start again.",
  ],
  [/\bEUSAGE\b|in sync/, "package.json and package-lock.json disagree; run `npm install` once and commit the lock."],
];

/**
 * @param {string} output
 * @param {boolean} timedOut
 * @returns {string}
 */
export function explainFailure(output, timedOut) {
  if (timedOut) {
    return "npm did not finish within twenty minutes and was stopped. Check the network and start again.";
  }
  const known = KNOWN_FAILURES.find(([pattern]) => pattern.test(output));
  const said = output.trim().split("\n").slice(-12).join("\n");
  return known === undefined ? `npm could not install the packages. The end of what it said:\n\n${said}` : known[1];
}

/** @param {string} root */
function checkRoom(root) {
  try {
    accessSync(root, constants.W_OK);
  } catch {
    throw new Trouble(
      `Nothing can be written to ${root}. Start it as the owner of the folder, or copy it to one of yours.`,
    );
  }
  const { bavail, bsize } = statfsSync(root);
  if (bavail * bsize < NEEDED_BYTES) {
    const free = (bavail * bsize) / 1e9;
    throw new Trouble(
      `An install needs about 1.6 GB and ${root} has ${free.toFixed(1)} GB left; make room and start again.`,
    );
  }
}

/**
 * @param {string} root
 * @returns {readonly string[]}
 */
function npmCommand(root) {
  const folders = pathWithoutTree(root).split(delimiter);
  if (folders.some((folder) => folder !== "" && existsSync(join(folder, "npm")))) {
    return ["npm"];
  }
  const own = process.env.npm_execpath;
  if (own !== undefined && existsSync(own)) {
    return [process.env.npm_node_execpath ?? process.execPath, own];
  }
  throw new Trouble(
    "npm is not on the search path. It comes with Node: install Node from your system or nodejs.org and start again.",
  );
}

/** @param {string} root */
function stampFile(root) {
  return join(root, "node_modules", ".signalbox-install");
}

/** @param {string} lock */
function stampOf(lock) {
  return `${createHash("sha256").update(lock).digest("hex")} ${process.platform}-${process.arch}\n`;
}

/**
 * @param {string} root
 * @param {string} lock
 */
function writeStamp(root, lock) {
  try {
    writeFileSync(stampFile(root), stampOf(lock));
  } catch {
    // Only costs the comparison again next time.
  }
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
