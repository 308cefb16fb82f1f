/** A process that a demonstration starts, reads from, freezes and kills. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

const READY_MS = 60_000;
const STOP_MS = 15_000;
const KEPT_CHARS = 4_000;

export class DemoProcess implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string, undefined>;
  #errors = "";

  constructor(words: readonly string[], environment: Readonly<Record<string, string>>) {
    const child = spawn(process.execPath, [...words], { env: { ...environment }, stdio: ["pipe", "pipe", "pipe"] });
    this.#child = child;
    child.stdin.on("error", () => undefined);
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#errors = `${this.#errors}${text}`.slice(-KEPT_CHARS);
    });
    this.#lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  }

  /** The next line it says. Rejects when it ends or stays silent instead. */
  async firstLine(): Promise<string> {
    const timer = Promise.withResolvers<never>();
    const timeout = setTimeout(() => timer.reject(new Error("a process stayed silent")), READY_MS);
    try {
      const next = await Promise.race([this.#lines.next(), timer.promise]);
      if (next.done === true) throw new Error(`a process of the demonstration ended early:\n${this.#errors}`);
      return next.value;
    } finally {
      clearTimeout(timeout);
    }
  }

  tell(line: string): void {
    this.#child.stdin?.write(`${line}\n`);
  }

  freeze(): void {
    this.#child.kill("SIGSTOP");
  }

  thaw(): void {
    this.#child.kill("SIGCONT");
  }

  async kill(signal: NodeJS.Signals = "SIGKILL"): Promise<void> {
    const child = this.#child;
    if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill(signal);
    const timer = setTimeout(() => child.kill("SIGKILL"), STOP_MS);
    await ended;
    clearTimeout(timer);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.thaw();
    await this.kill("SIGTERM");
  }
}
