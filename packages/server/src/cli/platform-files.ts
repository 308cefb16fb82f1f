/** Which platform processes use a data directory: each leaves a file there while it runs, named for its pid. */
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { identifySelf, judge, parseIdentity, type ProcessIdentity } from "../database/process-identity.ts";

const FOLDER = "platforms";
const factsSchema = z.object({
  url: z.string().nullable(),
  gatesUrl: z.string().nullable(),
  roles: z.array(z.string()),
  process: z.unknown(),
});

export interface PlatformFacts {
  readonly url: string | null;
  readonly gatesUrl: string | null;
  readonly roles: readonly string[];
}

export interface RunningPlatform extends PlatformFacts {
  readonly process: ProcessIdentity;
}

export async function leavePlatformFile(dataDir: string, facts: PlatformFacts): Promise<AsyncDisposable> {
  const folder = join(dataDir, FOLDER);
  mkdirSync(folder, { recursive: true });
  const path = join(folder, `${process.pid}.json`);
  writeFileSync(path, JSON.stringify({ ...facts, process: await identifySelf() }), { mode: 0o600 });
  return { [Symbol.asyncDispose]: async () => rmSync(path, { force: true }) };
}

/** Those that live. What the dead left is removed; a process of another machine is passed over. */
export async function runningPlatforms(dataDir: string): Promise<readonly RunningPlatform[]> {
  const folder = join(dataDir, FOLDER);
  const found: RunningPlatform[] = [];
  for (const name of namesIn(folder)) {
    const path = join(folder, name);
    const platform = read(path);
    const judged = platform === null ? "dead" : await judge(platform.process);
    if (platform !== null && judged === "alive") found.push(platform);
    if (judged === "dead") rmSync(path, { force: true });
  }
  return found;
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder).filter((name) => name.endsWith(".json"));
  } catch {
    return [];
  }
}

function read(path: string): RunningPlatform | null {
  try {
    const facts = factsSchema.parse(JSON.parse(readFileSync(path, "utf8")));
    const identity = parseIdentity(facts.process);
    return identity === null ? null : { ...facts, process: identity };
  } catch {
    return null;
  }
}
