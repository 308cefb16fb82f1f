/**
 * Starts an engine program so that it cannot outlive this worker, and ends it with everything it started. On Linux
 * the kernel kills it when the worker dies; elsewhere a watchman does, a shell that reads a pipe only the worker holds
 * open. The program leads a process group of its own, and it is the group that is killed.
 */
import { execFile, spawn, type ChildProcess, type ChildProcessWithoutNullStreams } from "node:child_process";
import { existsSync } from "node:fs";
import { promisify } from "node:util";
import { LIMITS } from "./limits.ts";
import { settlesWithin } from "./time-limit.ts";

export type DeathTie = { readonly kind: "kernel"; readonly setpriv: string } | { readonly kind: "watchman" };

export interface LaunchRequest {
  readonly command: string;
  readonly args: readonly string[];
  readonly cwd: string | undefined;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly signal: AbortSignal;
}

const KERNEL_TIE = ["--pdeathsig", "KILL", "--no-new-privs", "--"] as const;
const SETPRIV_PLACES = ["/usr/bin/setpriv", "/bin/setpriv", "/usr/sbin/setpriv"];
const WATCHMAN = 'read -r _; kill -s KILL -- "-$1" 2>/dev/null';

/** What this machine offers. A `setpriv` that does not know parent death (busybox has one) does not count. */
export async function findDeathTie(): Promise<DeathTie> {
  const setpriv = process.platform === "linux" ? SETPRIV_PLACES.find((place) => existsSync(place)) : undefined;
  if (setpriv !== undefined) {
    const works = await promisify(execFile)(setpriv, [...KERNEL_TIE, "true"]).then(
      () => true,
      () => false,
    );
    if (works) {
      return { kind: "kernel", setpriv };
    }
  }
  return { kind: "watchman" };
}

export class EngineProcess {
  readonly child: ChildProcessWithoutNullStreams;
  readonly #watchman: ChildProcess | null;
  readonly #exited: Promise<unknown>;
  #complaints = "";

  /** Must be called on the main thread: the kernel ties the child to the thread that made it. */
  constructor(request: LaunchRequest, tie: DeathTie) {
    const wrapper = tie.kind === "kernel" ? [tie.setpriv, ...KERNEL_TIE] : [];
    const [command = request.command, ...args] = [...wrapper, request.command, ...request.args];
    this.child = spawn(command, args, {
      cwd: request.cwd,
      env: request.env,
      stdio: ["pipe", "pipe", "pipe"],
      signal: request.signal,
      detached: true,
    });
    // Whoever gave the request listens too; this keeps a failed start from ending the worker.
    this.child.on("error", () => undefined);
    // Read always: a full pipe would stop the program.
    this.child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#complaints = (this.#complaints + text).slice(-LIMITS.complaintLength);
    });
    this.#watchman = tie.kind === "watchman" && this.child.pid !== undefined ? watch(this.child.pid) : null;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#exited = promise;
    this.child.on("exit", () => {
      resolve();
      this.#killGroup();
      this.#watchman?.kill("SIGKILL");
    });
  }

  /** The end of what the program wrote to its error output. */
  get complaints(): string {
    return this.#complaints.trim();
  }

  get isRunning(): boolean {
    return this.child.pid !== undefined && this.child.exitCode === null && this.child.signalCode === null;
  }

  /** Kills the whole group at once. */
  kill(): void {
    if (this.isRunning) {
      this.#killGroup();
    }
  }

  /** Whether the process is gone within `limitMs`. */
  async isGone(limitMs: number): Promise<boolean> {
    return !this.isRunning || settlesWithin(this.#exited, limitMs);
  }

  /** Lets go of the pipes to a process that is gone. */
  release(): void {
    this.child.stdin.destroy();
    this.child.stdout.destroy();
    this.child.stderr.destroy();
  }

  #killGroup(): void {
    if (this.child.pid === undefined) {
      return;
    }
    try {
      process.kill(-this.child.pid, "SIGKILL");
    } catch {
      // Nobody of the group is left.
    }
  }
}

function watch(group: number): ChildProcess {
  const watchman = spawn("/bin/sh", ["-c", WATCHMAN, "sh", String(group)], {
    env: { PATH: "/usr/bin:/bin" },
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  watchman.on("error", () => undefined);
  watchman.stdin?.on("error", () => undefined);
  return watchman;
}
