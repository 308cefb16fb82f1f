/**
 * The private directory of a worker. It goes with the worker; what a killed one left behind is removed by the next
 * worker of the same user on the same machine.
 */
import { createHash } from "node:crypto";
import { readlinkSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { hostname, tmpdir } from "node:os";
import { join } from "node:path";

const PREFIX = "signalbox-worker";

export interface Scratch extends AsyncDisposable {
  readonly path: string;
}

export async function makeScratch(root: string = tmpdir()): Promise<Scratch> {
  await sweepScratch(root);
  const path = await mkdtemp(join(root, `${homeName()}-${process.pid}-`));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}

function homeName(): string {
  return `${PREFIX}-${processSpace()}`;
}

/**
 * Removes what workers left behind that were killed, below `root`, by default the system's temporary folder. Every
 * worker does so when it starts; whoever starts workers may do so when the last one has ended.
 */
export async function sweepScratch(root: string = tmpdir()): Promise<void> {
  const home = homeName();
  for (const name of await readdir(root)) {
    if (!name.startsWith(`${home}-`)) {
      continue;
    }
    const pid = Number(name.slice(home.length + 1).split("-")[0]);
    if (Number.isInteger(pid) && pid > 0 && !isAlive(pid)) {
      // Another user's directory cannot be removed, and need not be.
      await rm(join(root, name), { recursive: true, force: true }).catch(() => undefined);
    }
  }
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return !(error instanceof Error && "code" in error && error.code === "ESRCH");
  }
}

/** Process ids only mean something within one machine and one namespace: containers may share a temporary folder. */
function processSpace(): string {
  let space = "";
  try {
    space = readlinkSync("/proc/self/ns/pid");
  } catch {
    // Systems without namespaces have one process space per machine.
  }
  return createHash("sha256").update(`${hostname()} ${space}`).digest("hex").slice(0, 8);
}
