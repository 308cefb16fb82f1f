/**
 * Everything a demonstration needs, as real processes: an embedded database of its own, the simulated model, the
 * platform and workers, in a temporary folder that goes at the end. Whatever is killed here was started here.
 */
import { randomBytes } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { Signalbox } from "@signalbox/client";
import type { Environment } from "../../config/environment.ts";
import { withClient, type PgConfig } from "../../database/connection.ts";
import { openDatabase, type Database } from "../../database/open-database.ts";
import { UsageError } from "../command.ts";
import { DemoProcess } from "./demo-process.ts";

const BINARY = fileURLToPath(new URL("../../main.js", import.meta.url));
// A name, not an import: an installation for production need not have it.
const TESTKIT = "@signalbox/testkit";
const CONNECT_MS = 5_000;
const RUNTIME_WAIT_MS = 30_000;
const POLL_MS = 50;

export interface DemoStageOptions {
  readonly environment: Environment;
  readonly note: (text: string) => void;
  /** Tool servers of the platform, as `--mcp-servers` takes them, made with the folder of the demonstration. */
  readonly toolServers?: (folder: string) => Readonly<Record<string, unknown>>;
}

export class DemoStage implements AsyncDisposable {
  readonly folder: string;
  readonly #options: DemoStageOptions;
  readonly #joinToken = randomBytes(24).toString("base64url");
  readonly #secret = randomBytes(24).toString("base64url");
  readonly #processes: DemoProcess[] = [];
  #database: Database | null = null;
  #simUrl = "";
  #apiKey = "";
  /** Kept over a restart, so that a client finds the platform again. */
  #ports: { readonly port: string; readonly gatesPort: string } = { port: "0", gatesPort: "0" };
  platform: DemoProcess | null = null;
  url = "";
  gatesUrl = "";

  private constructor(options: DemoStageOptions) {
    this.#options = options;
    this.folder = mkdtempSync(join(tmpdir(), "signalbox-demo-"));
  }

  static async set(options: DemoStageOptions): Promise<DemoStage> {
    const stage = new DemoStage(options);
    try {
      await stage.#begin();
      return stage;
    } catch (thrown) {
      await stage[Symbol.asyncDispose]();
      throw thrown;
    }
  }

  get client(): Signalbox {
    return new Signalbox({ url: this.url, apiKey: this.#apiKey });
  }

  /** Starts the platform, again after it was killed, at the same addresses. */
  async startPlatform(): Promise<void> {
    const { port, gatesPort } = this.#ports;
    const words = ["serve", "--port", port, "--gates-port", gatesPort, ...this.#dataWords()];
    this.platform = this.#start(words);
    // The first line of `signalbox serve`.
    const ready = JSON.parse(await this.platform.firstLine()) as { readonly url: string; readonly gatesUrl: string };
    this.url = ready.url;
    this.gatesUrl = ready.gatesUrl;
    this.#ports = { port: new URL(ready.url).port, gatesPort: new URL(ready.gatesUrl).port };
  }

  /** Resolves when the platform can give runs to the worker. */
  async startWorker(runtime: string): Promise<DemoProcess> {
    const worker = this.#start(["worker", "--runtime", runtime, "--platform", this.gatesUrl]);
    await this.offered(runtime);
    return worker;
  }

  /** A worker with an engine of the demonstration; what it says on standard output is the demonstration's to read. */
  startEngine(entry: URL, environment: Readonly<Record<string, string>>): DemoProcess {
    return this.#keep(new DemoProcess([fileURLToPath(entry), this.gatesUrl], this.#environment(environment)));
  }

  async offered(runtime: string, workerCount = 1): Promise<void> {
    const deadlineMs = performance.now() + RUNTIME_WAIT_MS;
    for (;;) {
      const known = (await this.client.runtimes()).find((each) => each.name === runtime);
      if (known?.available === true && known.workers >= workerCount) return;
      if (performance.now() > deadlineMs) throw new Error(`no worker offered ${runtime} in time`);
      await new Promise((resolve) => setTimeout(resolve, POLL_MS));
    }
  }

  async query<Row extends object>(text: string, values: readonly unknown[] = []): Promise<readonly Row[]> {
    return withClient(this.#pgConfig(), CONNECT_MS, async (client) => {
      const { rows } = await client.query(text, [...values]);
      // The statement is the caller's, and so is the shape of its rows.
      return rows as readonly Row[];
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const child of this.#processes.toReversed()) await child[Symbol.asyncDispose]();
    await this.#database?.[Symbol.asyncDispose]();
    // A worker that was killed could not put its folder away, and no other one may start here soon. Loaded only now.
    const { sweepScratch } = await import("@signalbox/worker");
    await sweepScratch(this.#options.environment.TMPDIR);
    rmSync(this.folder, { recursive: true, force: true });
  }

  async #begin(): Promise<void> {
    const { note, toolServers } = this.#options;
    writeFileSync(join(this.folder, "mcp-servers.json"), JSON.stringify(toolServers?.(this.folder) ?? {}));
    note("starting a database, the simulated model and the platform …");
    const sim = this.#keep(new DemoProcess([simulatedModel(), "--port", "0", "--ids", "unique"], this.#environment()));
    this.#database = await openDatabase({ dataDir: join(this.folder, "data") });
    // The first line of the simulated model.
    this.#simUrl = (JSON.parse(await sim.firstLine()) as { readonly url: string }).url;
    await this.startPlatform();
    const keys = this.#start(["keys", "create", "demo", ...this.#dataWords()]);
    this.#apiKey = await keys.firstLine();
  }

  #start(words: readonly string[]): DemoProcess {
    return this.#keep(new DemoProcess([BINARY, ...words], this.#environment()));
  }

  #keep(child: DemoProcess): DemoProcess {
    this.#processes.push(child);
    return child;
  }

  #dataWords(): readonly string[] {
    const { folder } = this;
    return [
      "--data-dir",
      join(folder, "data"),
      "--mcp-servers",
      join(folder, "mcp-servers.json"),
      "--log-level",
      "error",
    ];
  }

  #environment(more: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> {
    const { PATH, HOME, TMPDIR } = this.#options.environment;
    return {
      ...(PATH === undefined ? {} : { PATH }),
      ...(HOME === undefined ? {} : { HOME }),
      ...(TMPDIR === undefined ? {} : { TMPDIR }),
      SIGNALBOX_JOIN_TOKEN: this.#joinToken,
      SIGNALBOX_SECRET: this.#secret,
      SIGNALBOX_LOG_LEVEL: "error",
      // The tools of a demonstration are its own.
      SIGNALBOX_POSTURE: "dev",
      ...(this.#simUrl === "" ? {} : { SIGNALBOX_SIM_URL: this.#simUrl }),
      ...more,
    };
  }

  #pgConfig(): PgConfig {
    if (this.#database === null) throw new Error("the database of the demonstration is not open");
    return this.#database.pgConfig;
  }
}

export function testkitProgram(path: string): string {
  try {
    return join(dirname(fileURLToPath(import.meta.resolve(`${TESTKIT}/package.json`))), "dist", path);
  } catch {
    throw new UsageError(`a demonstration needs the simulated model: npm install ${TESTKIT}`);
  }
}

function simulatedModel(): string {
  return testkitProgram("sim/main.js");
}
