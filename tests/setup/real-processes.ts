/**
 * The platform as its users run it: real processes from dist/, started and killed by their own pids. Each reports
 * itself ready on its first line.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const BINARY = join(ROOT, "packages/server/dist/main.js");
const SCRIPTED_WORKER = join(ROOT, "packages/testkit/dist/scripted/worker-main.js");
const READY_MS = 60_000;
const EXIT_MS = 25_000;
const KEPT_OUTPUT_CHARS = 20_000;

/** What every process of one platform shares. */
export interface PlatformFacts {
  readonly databaseUrl: string;
  readonly simUrl: string;
  readonly joinToken: string;
  readonly secret: string;
  readonly directory: string;
  readonly toolServers: string;
  /** Beyond what every platform is told. */
  readonly environment: Readonly<Record<string, string>>;
}

export function platformFacts(options: {
  readonly databaseUrl: string;
  readonly simUrl: string;
  readonly toolServers?: Readonly<Record<string, unknown>>;
  readonly environment?: Readonly<Record<string, string>>;
}): PlatformFacts & Disposable {
  const directory = mkdtempSync(join(tmpdir(), "platform-"));
  const toolServers = join(directory, "mcp-servers.json");
  writeFileSync(toolServers, JSON.stringify(options.toolServers ?? {}));
  return {
    databaseUrl: options.databaseUrl,
    simUrl: options.simUrl,
    joinToken: "join-token-of-this-test",
    secret: "secret-of-this-test",
    directory,
    toolServers,
    environment: options.environment ?? {},
    [Symbol.dispose]: () => rmSync(directory, { recursive: true, force: true }),
  };
}

export class RealProcess implements AsyncDisposable {
  readonly child: ChildProcess;
  #output = "";

  /** `binary` is the present one unless said otherwise. */
  constructor(words: readonly string[], environment: Readonly<Record<string, string>>, binary: string = BINARY) {
    this.child = spawn(process.execPath, [binary, ...words], {
      cwd: ROOT,
      env: { PATH: process.env.PATH ?? "", TMPDIR: tmpdir(), HOME: tmpdir(), ...environment },
      stdio: ["pipe", "pipe", "pipe"],
    });
    for (const stream of [this.child.stdout, this.child.stderr]) {
      stream?.setEncoding("utf8").on("data", (text: string) => {
        this.#output = `${this.#output}${text}`.slice(-KEPT_OUTPUT_CHARS);
      });
    }
  }

  /** The tail of what it printed, for the message of a failed test. */
  get output(): string {
    return this.#output;
  }

  get running(): boolean {
    return this.child.exitCode === null && this.child.signalCode === null;
  }

  async firstLine(withinMs: number = READY_MS): Promise<string> {
    const { stdout } = this.child;
    if (stdout === null) throw new Error("the process has no standard output");
    const lines = createInterface({ input: stdout });
    const [line] = (await Promise.race([
      once(lines, "line", { signal: AbortSignal.timeout(withinMs) }),
      once(this.child, "close").then(() => {
        const { exitCode, signalCode } = this.child;
        throw new Error(`the process ended (${exitCode ?? signalCode}) before it was ready:\n${this.#output}`);
      }),
    ])) as [string];
    lines.close();
    stdout.resume();
    return line;
  }

  async kill(signal: "SIGKILL" | "SIGTERM"): Promise<void> {
    if (!this.running) return;
    const ended = once(this.child, "exit", { signal: AbortSignal.timeout(EXIT_MS) });
    this.child.kill(signal);
    await ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.kill("SIGTERM");
    } catch {
      await this.kill("SIGKILL");
    }
  }
}

export interface Served {
  /** Empty where a process has no such listener. */
  readonly url: string;
  readonly gatesUrl: string;
  readonly process: RealProcess;
}

export interface ServeOptions {
  readonly port?: number;
  readonly gatesPort?: number;
  readonly role?: string;
  readonly environment?: Readonly<Record<string, string>>;
  /** Another release. */
  readonly binary?: string;
}

/** `signalbox serve`, ready. The ports of a platform that stood before may be asked for again. */
export async function serve(facts: PlatformFacts, options: ServeOptions = {}): Promise<Served> {
  const child = new RealProcess(
    [
      "serve",
      "--port",
      String(options.port ?? 0),
      "--gates-port",
      String(options.gatesPort ?? 0),
      "--mcp-servers",
      facts.toolServers,
      ...(options.role === undefined ? [] : ["--role", options.role]),
    ],
    { ...environmentOf(facts), ...options.environment },
    options.binary,
  );
  try {
    const ready = JSON.parse(await child.firstLine()) as {
      readonly url: string | null;
      readonly gatesUrl: string | null;
    };
    return { url: ready.url ?? "", gatesUrl: ready.gatesUrl ?? "", process: child };
  } catch (thrown) {
    await child.kill("SIGKILL");
    throw thrown;
  }
}

export function startWorkerProcess(
  facts: PlatformFacts,
  options: {
    readonly gatesUrl: string;
    readonly runtime: string;
    readonly binary?: string;
    readonly words?: readonly string[];
  },
): RealProcess {
  return new RealProcess(
    ["worker", "--runtime", options.runtime, "--platform", options.gatesUrl, ...(options.words ?? [])],
    { SIGNALBOX_JOIN_TOKEN: facts.joinToken },
    options.binary,
  );
}

/** A worker with the scripted engine alone. */
export function startScriptedWorker(facts: PlatformFacts, gatesUrl: string): RealProcess {
  return new RealProcess([gatesUrl], { SIGNALBOX_JOIN_TOKEN: facts.joinToken }, SCRIPTED_WORKER);
}

/** A key with every right. */
export async function issueKey(facts: PlatformFacts, words: readonly string[] = [], binary?: string): Promise<string> {
  await using child = new RealProcess(["keys", "create", "test", ...words], environmentOf(facts), binary);
  return await child.firstLine();
}

export function environmentOf(facts: PlatformFacts): Readonly<Record<string, string>> {
  return {
    DATABASE_URL: facts.databaseUrl,
    SIGNALBOX_SIM_URL: facts.simUrl,
    SIGNALBOX_JOIN_TOKEN: facts.joinToken,
    SIGNALBOX_SECRET: facts.secret,
    SIGNALBOX_DATA_DIR: facts.directory,
    SIGNALBOX_LOG_LEVEL: "info",
    // Tools of tests are trusted as they are first seen.
    SIGNALBOX_POSTURE: "dev",
    ...facts.environment,
  };
}
