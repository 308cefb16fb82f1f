/**
 * The worker processes of `signalbox dev`, one per runtime. They are started before the platform stands, since loading
 * an engine takes as long as starting a platform, and hear on their standard input where it is once it does. A worker
 * gets an allow-listed environment; the join token is the only secret it hears. One that dies is started again, later
 * each time it dies young.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import type { Log } from "@signalbox/core";
import type { Environment } from "../config/environment.ts";

const PASSED_ON = ["PATH", "HOME", "TMPDIR", "LANG", "LC_ALL", "TZ", "NO_COLOR"] as const;
const RESTART_START_MS = 200;
const RESTART_LIMIT_MS = 10_000;
const YOUNG_MS = 30_000;
const STOP_TIMEOUT_MS = 15_000;

export interface WorkerChildrenOptions {
  readonly binary: string;
  readonly environment: Environment;
  readonly logLevel: string;
  readonly log: Log;
}

/** What the workers connect to. */
export interface WorkerHome {
  readonly platformUrl: string;
  readonly joinToken: string;
}

export class WorkerChildren implements AsyncDisposable {
  readonly #options: WorkerChildrenOptions;
  readonly #children = new Map<string, ChildProcess>();
  readonly #timers = new Set<NodeJS.Timeout>();
  #home: WorkerHome | null = null;
  #stopping = false;

  constructor(options: WorkerChildrenOptions) {
    this.#options = options;
  }

  start(runtime: string, restartDelayMs: number = RESTART_START_MS): void {
    const { binary, environment, logLevel, log } = this.#options;
    const env: Record<string, string> = { SIGNALBOX_LOG_LEVEL: logLevel };
    for (const name of PASSED_ON) {
      const value = environment[name];
      if (value !== undefined) env[name] = value;
    }
    const startedAtMs = performance.now();
    const child = spawn(
      process.execPath,
      [binary, "worker", "--runtime", runtime, "--platform", "-", "--stop-with-parent"],
      {
        env,
        stdio: ["pipe", "inherit", "inherit"],
        // Out of reach of a terminal's Ctrl-C: a run that drains still needs its worker.
        detached: true,
      },
    );
    this.#children.set(runtime, child);
    if (this.#home !== null) tell(child, this.#home);
    // A child that cannot be started says so here and never exits.
    child.once("error", (error) => log.error("a worker process could not be started", error, { runtime }));
    child.stdin?.once("error", () => undefined);
    child.once("close", (code, signal) => {
      this.#children.delete(runtime);
      if (this.#stopping) return;
      const young = performance.now() - startedAtMs < YOUNG_MS;
      log.warn("a worker process ended and is started again", {
        runtime,
        pid: child.pid,
        code,
        signal,
        afterMs: restartDelayMs,
      });
      const timer = setTimeout(() => {
        this.#timers.delete(timer);
        this.start(runtime, young ? Math.min(restartDelayMs * 2, RESTART_LIMIT_MS) : RESTART_START_MS);
      }, restartDelayMs);
      this.#timers.add(timer);
    });
  }

  /** The platform stands: every worker, also one that is started again, is told where. */
  welcome(home: WorkerHome): void {
    this.#home = home;
    for (const child of this.#children.values()) tell(child, home);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping = true;
    for (const timer of this.#timers) clearTimeout(timer);
    await Promise.all([...this.#children.values()].map((child) => stop(child)));
    // A worker that was killed could not put its folder away, and no other one may start here soon. Loaded only now:
    // no command waits for it.
    const { sweepScratch } = await import("@signalbox/worker");
    await sweepScratch(this.#options.environment.TMPDIR);
  }
}

function tell(child: ChildProcess, { platformUrl, joinToken }: WorkerHome): void {
  child.stdin?.write(`${JSON.stringify({ platformUrl, joinToken })}\n`);
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGTERM");
  const timer = setTimeout(() => child.kill("SIGKILL"), STOP_TIMEOUT_MS);
  await ended;
  clearTimeout(timer);
}
