/**
 * What stops the server when the last node dies without leaving. A shell waits on a pipe that only this process holds
 * open; when it closes without a word, whatever killed us, the shell waits a moment (a restarted node finds its server
 * warm) and then looks, under the lock, whether anybody is left. It costs under a megabyte and no processor time.
 */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { Socket } from "node:net";
import { fileURLToPath } from "node:url";

const WAIT_THEN_LOOK = 'read -r word && exit 0; sleep "$1"; shift; exec "$@"';
const GOODBYE_PATIENCE_MS = 5_000;

export class AbandonmentWatch implements AsyncDisposable {
  readonly #shell: ChildProcess;

  private constructor(shell: ChildProcess) {
    this.#shell = shell;
  }

  static async begin(dataDir: string, abandonedAfterMs: number): Promise<AbandonmentWatch> {
    const seconds = String(Math.ceil(abandonedAfterMs / 1_000));
    const shell = spawn("/bin/sh", ["-c", WAIT_THEN_LOOK, "signalbox-database-watch", seconds, ...look(dataDir)], {
      // A session of its own: what ends our process group must not end the watch.
      detached: true,
      cwd: "/",
      // It outlives us, so it must not keep our secrets in its environment.
      env: { PATH: "/usr/local/bin:/usr/bin:/bin" },
      stdio: ["pipe", "ignore", "ignore"],
    });
    await once(shell, "spawn");
    shell.stdin?.on("error", () => undefined);
    shell.unref();
    if (shell.stdin instanceof Socket) {
      shell.stdin.unref();
    }
    return new AbandonmentWatch(shell);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#shell.exitCode !== null || this.#shell.signalCode !== null) {
      return;
    }
    this.#shell.ref();
    const ended = once(this.#shell, "exit", { signal: AbortSignal.timeout(GOODBYE_PATIENCE_MS) });
    this.#shell.stdin?.end("left\n");
    await ended.catch(() => this.#shell.kill("SIGKILL"));
  }
}

/** The command that looks. Sources run as they are under a Node that takes types out; built code runs built. */
function look(dataDir: string): readonly string[] {
  const program = fileURLToPath(new URL("./abandoned.ts", import.meta.url));
  return import.meta.url.endsWith(".ts")
    ? [process.execPath, "--conditions=@signalbox/source", program, dataDir]
    : [process.execPath, program.replace(/\.ts$/, ".js"), dataDir];
}
