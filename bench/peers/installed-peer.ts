/** A peer's packages, installed by the bench beside the peer's own lock file and by nobody else. */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const INSTALLS_WITHIN_MS = 180_000;
const KEPT_OUTPUT_CHARS = 600;
const FLAGS = ["--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--fetch-retries=1"];

/** Thrown where a peer cannot be had; the message is for whoever runs the bench. */
export class PeerMissingError extends Error {
  override readonly name = "PeerMissingError";
}

export interface PeerPackage {
  /** A folder beside this file. */
  readonly folder: string;
  readonly name: string;
  readonly version: string;
}

export async function installPeer(peer: PeerPackage, say: (text: string) => void): Promise<void> {
  const folder = fileURLToPath(new URL(`${peer.folder}/`, import.meta.url));
  if (isInstalled(folder, peer)) return;
  say(`installing ${peer.name} ${peer.version} and what it needs into bench/peers/${peer.folder}`);
  const child = spawn("npm", ["ci", ...FLAGS], {
    cwd: folder,
    stdio: ["ignore", "pipe", "pipe"],
    signal: AbortSignal.timeout(INSTALLS_WITHIN_MS),
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      output = `${output}${text}`.slice(-KEPT_OUTPUT_CHARS);
    });
  }
  const ended = await once(child, "close").catch((problem: unknown) => [String(problem)]);
  if (ended[0] === 0 && isInstalled(folder, peer)) return;
  throw new PeerMissingError(
    `${peer.name} ${peer.version} could not be installed, so nothing is compared with it: the package registry did not ` +
      `answer, or refused (npm ci: ${String(ended[0])}). ${output.trim()}`,
  );
}

function isInstalled(folder: string, { name, version }: PeerPackage): boolean {
  // npm writes this file last.
  if (!existsSync(`${folder}node_modules/.package-lock.json`)) return false;
  const file = `${folder}node_modules/${name}/package.json`;
  // A package always says its version.
  return existsSync(file) && (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version === version;
}
