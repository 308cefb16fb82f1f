import { existsSync } from "node:fs";
import { delimiter, join, sep } from "node:path";
import { Trouble } from "./trouble.mjs";

const NODE_MAJOR_MIN = 18;
const SUPPORTED = ["linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64"];

/**
 * Says in a sentence why this machine cannot run Signalbox, before anything is installed.
 * @param {{ version: string, platform: string, arch: string, glibc: boolean }} machine
 */
export function checkMachine(machine) {
  const major = Number(machine.version.split(".")[0]);
  if (!(major >= NODE_MAJOR_MIN)) {
    throw new Trouble(
      `This is Node ${machine.version}. Signalbox begins with Node ${NODE_MAJOR_MIN} or newer and brings the version it runs on by itself; please update Node.`,
    );
  }
  const platform = `${machine.platform}-${machine.arch}`;
  if (!SUPPORTED.includes(platform)) {
    throw new Trouble(
      `Signalbox runs on ${SUPPORTED.join(", ")}; this machine is ${platform}. On Windows, use WSL 2 and start it there.`,
    );
  }
  if (machine.platform === "linux" && !machine.glibc) {
    throw new Trouble(
      "This Linux has no glibc (it looks like Alpine or another musl system); the PostgreSQL and Node binaries from npm need it. Use a Debian, Ubuntu or Fedora based system or image.",
    );
  }
}

export function thisMachine() {
  const { platform, arch, versions } = process;
  return { platform, arch, version: versions.node, glibc: platform === "linux" && hasGlibc() };
}

function hasGlibc() {
  // Without this the report resolves names of peers, which can take seconds.
  Object.assign(process.report, { excludeNetwork: true });
  // Typed as a plain object by Node's own declarations.
  const report = /** @type {{ header: { glibcVersionRuntime?: string } }} */ (process.report.getReport());
  return report.header.glibcVersionRuntime !== undefined;
}

/**
 * The Node the repository pins, once it is installed.
 * @param {string} root
 * @returns {string | null}
 */
export function pinnedNode(root) {
  const file = join(root, "node_modules", "node", "bin", "node");
  return existsSync(file) ? file : null;
}

/**
 * The environment of everything we run: `node` and every tool are the installed ones.
 * @param {string} root
 * @returns {NodeJS.ProcessEnv}
 */
export function toolEnvironment(root) {
  const path = [join(root, "node_modules", ".bin"), pathWithoutTree(root)].join(delimiter);
  return { ...process.env, PATH: path };
}

/**
 * The search path without our own node_modules: an install replaces them, so it must not run on what is in there.
 * @param {string} root
 */
export function pathWithoutTree(root) {
  const inside = join(root, "node_modules") + sep;
  return (process.env.PATH ?? "")
    .split(delimiter)
    .filter((entry) => !(entry + sep).startsWith(inside))
    .join(delimiter);
}
