/** A process that is measured from outside and inside: it comes up, takes orders over its channel and counts its CPU. */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

/** Every measured process understands `cpu`. */
export type Order = { readonly cpu: true } | { readonly [order: string]: unknown };
export type Answer = Readonly<Record<string, unknown>>;

const ANSWERS_WITHIN_MS = 60_000;
const STOPS_WITHIN_MS = 10_000;

export class MeasuredProcess implements AsyncDisposable {
  readonly #child: ChildProcess;
  /** What it said when it was up. */
  readonly up: Answer;

  private constructor(child: ChildProcess, up: Answer) {
    this.#child = child;
    this.up = up;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** `main` is a module, seen from this one, that calls `serveOrders`. */
  static async start(
    main: `${"." | ".."}/${string}-main.ts`,
    environment: Readonly<Record<string, string>>,
  ): Promise<MeasuredProcess> {
    const child = fork(fileURLToPath(new URL(main, import.meta.url)), [], {
      execArgv: ["--conditions=@signalbox/source"],
      env: { PATH: process.env.PATH ?? "", HOME: process.env.HOME ?? "", ...environment },
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    return new MeasuredProcess(child, await next(child));
  }

  async ask(order: Order): Promise<Answer> {
    const answer = next(this.#child);
    this.#child.send(order);
    return answer;
  }

  /** User and system time so far. */
  async cpuMs(): Promise<number> {
    return Number((await this.ask({ cpu: true })).cpuMs);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const gone = once(this.#child, "exit");
    // The channel's end is its order to leave.
    this.#child.disconnect();
    const timer = setTimeout(() => this.#child.kill("SIGKILL"), STOPS_WITHIN_MS);
    await gone;
    clearTimeout(timer);
  }
}

/** The other end, in the measured process: says that it is up, obeys, and resolves when the channel ends. */
export async function serveOrders(up: Answer, obey: (order: Order) => Promise<Answer>): Promise<void> {
  const answer = (message: Answer): void => {
    process.send?.(message);
  };
  process.on("message", (order: Order) => {
    const { user, system } = process.cpuUsage();
    const answered = "cpu" in order ? Promise.resolve({ cpuMs: (user + system) / 1_000 }) : obey(order);
    answered.then(answer, (problem: unknown) => answer({ problem: String(problem) }));
  });
  answer(up);
  await once(process, "disconnect");
}

async function next(child: ChildProcess): Promise<Answer> {
  const settled = new AbortController();
  const signal = AbortSignal.any([settled.signal, AbortSignal.timeout(ANSWERS_WITHIN_MS)]);
  const gone = once(child, "exit", { signal }).then(() => {
    throw new Error("a measured process ended");
  });
  try {
    // Only `serveOrders` writes to this channel.
    const [answer] = (await Promise.race([once(child, "message", { signal }), gone])) as [Answer];
    if ("problem" in answer) throw new Error(`a measured process failed: ${String(answer.problem)}`);
    return answer;
  } finally {
    gone.catch(() => undefined);
    settled.abort();
  }
}
