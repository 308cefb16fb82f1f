/**
 * Who uses the embedded server: one file per opened handle, named for its process. Read and changed only under the
 * lock, except that its owner keeps the file's time moving. What a dead process left is removed by whoever looks next.
 */
import { randomUUID } from "node:crypto";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { Heartbeat, stillBeats } from "./heartbeat.ts";
import { identifySelf, judge, parseIdentity, type ProcessIdentity } from "./process-identity.ts";

export class NodeEntry implements AsyncDisposable {
  readonly #path: string;
  readonly #heartbeat: Heartbeat;

  private constructor(path: string) {
    this.#path = path;
    this.#heartbeat = new Heartbeat(path);
  }

  static async register(nodesDir: string): Promise<NodeEntry> {
    const self = await identifySelf();
    await mkdir(nodesDir, { recursive: true });
    const path = join(nodesDir, `${self.pid}-${randomUUID()}.json`);
    await writeFile(path, JSON.stringify(self), { flag: "wx", mode: 0o600 });
    return new NodeEntry(path);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#heartbeat[Symbol.dispose]();
    await rm(this.#path, { force: true });
  }
}

export interface LivingNodes {
  readonly here: readonly ProcessIdentity[];
  /** Alive by their heartbeat, in another container or on another machine: they cannot share our server. */
  readonly elsewhere: readonly ProcessIdentity[];
}

export async function livingNodes(nodesDir: string): Promise<LivingNodes> {
  const names = await readdir(nodesDir).catch(() => []);
  const here: ProcessIdentity[] = [];
  const elsewhere: ProcessIdentity[] = [];
  await Promise.all(
    names.map(async (name) => {
      const path = join(nodesDir, name);
      const node = await readNode(path);
      const judgement = node === null ? "dead" : await judge(node);
      if (node !== null && judgement === "alive") {
        here.push(node);
      } else if (node !== null && judgement === "elsewhere" && (await stillBeats(path))) {
        elsewhere.push(node);
      } else {
        await rm(path, { force: true });
      }
    }),
  );
  return { here, elsewhere };
}

/** Null for what a crash of the machine cut off: writers hold the lock, so nobody reads a file being written. */
async function readNode(path: string): Promise<ProcessIdentity | null> {
  try {
    const value: unknown = JSON.parse(await readFile(path, "utf8"));
    return parseIdentity(value);
  } catch {
    return null;
  }
}
