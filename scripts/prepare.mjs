import { existsSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { runToEnd } from "./child.mjs";
import { install, installReason } from "./install.mjs";
import { checkMachine, pinnedNode, thisMachine, toolEnvironment } from "./platform.mjs";
import { Trouble } from "./trouble.mjs";
import { oneAtATime } from "./turnstile.mjs";

const BUILD_TIMEOUT_MS = 5 * 60_000;
const SLOW_BUILD_MS = 1_000;
const WAIT_MS = 25 * 60_000;

/**
 * Brings a checkout to the point where everything can run: installed when needed, built.
 * @param {string} root
 * @returns {Promise<{ node: string, env: NodeJS.ProcessEnv }>}
 */
export async function prepare(root) {
  const say = (/** @type {string} */ line) => process.stdout.write(`${line}\n`);
  checkMachine(thisMachine());
  return await oneAtATime({ file: join(root, ".signalbox", "prepare.lock"), waitMs: WAIT_MS, say }, async () => {
    const reason = installReason(root);
    if (reason !== null) {
      say(`installing: ${reason} (about a minute, 1.1 GB)`);
      await install(root, say);
    }
    const node = pinnedNode(root);
    if (node === null) {
      throw new Trouble("The pinned Node is missing from node_modules; remove that folder and start again.");
    }
    // Only a build that takes a while is worth a line.
    const slow = setTimeout(() => say("building …"), SLOW_BUILD_MS);
    await build(root, node).finally(() => clearTimeout(slow));
    return { node, env: toolEnvironment(root) };
  });
}

/**
 * @param {string} root
 * @param {string} node
 */
async function build(root, node) {
  const compiler = join(root, "node_modules", "typescript", "bin", "tsc");
  const { code, tail, timedOut, interrupted } = await runToEnd([node, compiler, "--build", "tsconfig.packages.json"], {
    cwd: root,
    env: toolEnvironment(root),
    timeoutMs: BUILD_TIMEOUT_MS,
  });
  if (interrupted) {
    throw new Trouble("Interrupted while building; the next start goes on where this one stopped.", 130);
  }
  if (/\bENOSPC\b|no space left/i.test(tail)) {
    throw new Trouble("The disk is full, so the build could not be written. Make room and start again.");
  }
  if (timedOut || code !== 0) {
    throw new Trouble(`The build failed:\n\n${tail.trim()}`);
  }
  for (const name of readdirSync(join(root, "packages"))) {
    removeStale(join(root, "packages", name, "dist"), join(root, "packages", name, "src"));
  }
}

/**
 * The compiler never takes away the output of a source that is gone; a process could still find it.
 * @param {string} built
 * @param {string} sources
 */
export function removeStale(built, sources) {
  if (!existsSync(built)) {
    return;
  }
  for (const entry of readdirSync(built, { withFileTypes: true })) {
    const path = join(built, entry.name);
    if (entry.isDirectory()) {
      removeStale(path, join(sources, entry.name));
      continue;
    }
    const stem = /^(.*?)(\.d)?\.(js|ts)(\.map)?$/.exec(entry.name)?.[1];
    if (stem !== undefined && !existsSync(join(sources, `${stem}.ts`))) {
      rmSync(path);
    }
  }
}
