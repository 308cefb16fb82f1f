/**
 * A bare engine as a process of its own. It is asked over a channel and measures itself, from the call of the engine to
 * its tokens, so that the channel costs the measurement nothing.
 */
import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";

export interface BareOrder {
  readonly conversation: string;
  readonly text: string;
}

export interface BareRun {
  readonly firstTokenMs: number;
  readonly lastTokenMs: number;
  readonly finishedMs: number;
  readonly text: string;
}

export type BareAnswer = { readonly conversation: string } & ({ readonly run: BareRun } | { readonly problem: string });

/** Modules beside this one that call `serveBare`. */
const ENGINES = {
  "thin graph": "./graph-main.ts",
  "chat graph": "./chat-graph-main.ts",
  query: "./claude-main.ts",
} as const;

const STOPS_WITHIN_MS = 10_000;
const ANSWERS_WITHIN_MS = 120_000;

export class BareProcess implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #gone: Promise<never>;
  readonly #waiting = new Map<string, (answer: BareAnswer) => void>();

  constructor(engine: keyof typeof ENGINES, environment: Readonly<Record<string, string>>) {
    this.#child = fork(fileURLToPath(new URL(ENGINES[engine], import.meta.url)), [], {
      execArgv: ["--conditions=@signalbox/source"],
      env: { PATH: process.env.PATH ?? "", HOME: process.env.HOME ?? "", ...environment },
      stdio: ["ignore", "ignore", "inherit", "ipc"],
    });
    this.#gone = once(this.#child, "exit").then(() => {
      throw new Error("the bare engine's process ended");
    });
    // Only `serveBare` writes to this channel.
    this.#child.on("message", (answer: BareAnswer) => this.#waiting.get(answer.conversation)?.(answer));
    // An order to a process that has ended; its end is what is reported.
    this.#child.on("error", () => undefined);
    // Whoever waits for a run sees it; afterwards the end is expected.
    this.#gone.catch(() => undefined);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** One run. Only the chat graph can do several at once, each in a conversation of its own. */
  async run(order: BareOrder): Promise<BareRun> {
    const waiting = Promise.withResolvers<BareAnswer>();
    this.#waiting.set(order.conversation, waiting.resolve);
    const late = setTimeout(() => waiting.reject(new Error("the bare engine did not answer")), ANSWERS_WITHIN_MS);
    try {
      this.#child.send(order);
      const answer = await Promise.race([waiting.promise, this.#gone]);
      if ("problem" in answer) throw new Error(`the bare engine failed: ${answer.problem}`);
      return answer.run;
    } finally {
      clearTimeout(late);
      this.#waiting.delete(order.conversation);
    }
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
