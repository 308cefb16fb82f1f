/**
 * A node's hold on the embedded server, from opening to leaving. While it is open the server is kept running: when it
 * dies it is started again at the same address, so pools that reconnect need to know nothing.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { AbandonmentWatch } from "./abandonment-watch.ts";
import { embeddedConfig, embeddedUrl, type PgConfig } from "./connection.ts";
import { fileError } from "./database-error.ts";
import { shortenLog } from "./server-log.ts";
import {
  enter,
  isServing,
  leave,
  revive,
  type Entered,
  type ReportStep,
  type ServerOrigin,
} from "./server-lifecycle.ts";
import type { RunningServer } from "./server-record.ts";
import { layoutOf } from "./layout.ts";

export interface EmbeddedOptions {
  readonly dataDir: string;
  readonly abandonedAfterMs: number;
  readonly report: ReportStep;
}

/** Two system calls on Linux; elsewhere a process has to be asked for. */
const LOOK_EVERY_MS = process.platform === "linux" ? 1_000 : 5_000;
const LONGEST_PAUSE_MS = 30_000;
const SHORTEN_LOG_EVERY = 60;

export class EmbeddedDatabase implements AsyncDisposable {
  readonly kind = "embedded";
  readonly origin: ServerOrigin;
  readonly clusterDir: string;
  readonly pgConfig: PgConfig;
  readonly connectionString: string;
  readonly #entered: Entered;
  readonly #watch: AbandonmentWatch;
  readonly #report: ReportStep;
  readonly #stopKeeping = new AbortController();
  readonly #keeping: Promise<void>;
  #running: RunningServer;
  #left: Promise<void> | null = null;

  private constructor(entered: Entered, watch: AbandonmentWatch, report: ReportStep) {
    const { running, origin, layout } = entered;
    this.origin = origin;
    this.clusterDir = layout.clusterDir;
    this.pgConfig = embeddedConfig(running.socketDir);
    this.connectionString = embeddedUrl(running.socketDir);
    this.#entered = entered;
    this.#running = running;
    this.#watch = watch;
    this.#report = report;
    this.#keeping = this.#keepRunning(this.#stopKeeping.signal);
  }

  static async open(options: EmbeddedOptions): Promise<EmbeddedDatabase> {
    const { dataDir } = layoutOf(options.dataDir);
    // Before the server: a node that dies while it starts one must not leave it behind.
    const watch = await AbandonmentWatch.begin(dataDir, options.abandonedAfterMs);
    try {
      return new EmbeddedDatabase(await enter(dataDir, options.report), watch, options.report);
    } catch (error) {
      await watch[Symbol.asyncDispose]();
      throw fileError(error, "open the embedded database");
    }
  }

  /** Changes when the server had to be started again. */
  get serverPid(): number {
    return this.#running.server.pid;
  }

  /** Stops the server when nobody else uses it. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#left ??= this.#leave();
    await this.#left;
  }

  async #leave(): Promise<void> {
    this.#stopKeeping.abort();
    await this.#keeping;
    try {
      await leave(this.#entered.layout, this.#entered.entry, this.#running);
    } finally {
      await this.#watch[Symbol.asyncDispose]();
    }
  }

  async #keepRunning(signal: AbortSignal): Promise<void> {
    const { layout } = this.#entered;
    let pauseMs = LOOK_EVERY_MS;
    for (let look = 1; await pause(pauseMs, signal); look += 1) {
      try {
        if (!(await isServing(this.#running))) {
          this.#report("restarting");
          this.#running = await revive(layout, this.#running, this.#report);
          this.#report("restarted");
        }
        if (look % SHORTEN_LOG_EVERY === 0) {
          await shortenLog(layout.logFile);
        }
        pauseMs = LOOK_EVERY_MS;
      } catch (error) {
        this.#report("restart_failed", fileError(error, "start the database again"));
        pauseMs = Math.min(pauseMs * 2, LONGEST_PAUSE_MS);
      }
    }
  }
}

/** False when there is nothing more to wait for. */
async function pause(ms: number, signal: AbortSignal): Promise<boolean> {
  return sleep(ms, true, { signal, ref: false }).catch(() => false);
}
