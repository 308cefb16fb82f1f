/**
 * A tool server as a child process that speaks JSON-RPC in lines. It gets its own process group and a small
 * environment, and it does not outlive us: on Linux the kernel ends it with this process, elsewhere its closed input
 * does, and an orderly end kills the whole group.
 */
import { spawn, type ChildProcessByStdio } from "node:child_process";
import { existsSync } from "node:fs";
import type { Readable, Writable } from "node:stream";
import type { Clock } from "@signalbox/core";
import { isObject, RPC, type Json } from "./mcp-protocol.ts";
import {
  CANCEL_GRACE_MS,
  deservesGrace,
  endOf,
  notAnswered,
  NotAnswered,
  SETTLED,
  type RpcAnswer,
  type RpcRequest,
  type RpcWire,
} from "./rpc-wire.ts";

export interface StdioOptions {
  readonly command: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string | undefined;
}

type Child = ChildProcessByStdio<Writable, Readable, Readable>;

interface Waiting {
  readonly onMessage: RpcRequest["onMessage"];
  readonly resolve: (answer: RpcAnswer) => void;
  readonly reject: (error: NotAnswered) => void;
}

const SETPRIV = "/usr/bin/setpriv";
/** Of our own environment a tool server sees only what programs need to run at all. */
const PASSED_ENVIRONMENT: readonly string[] = ["PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER"];
const WAITING_MAX = 64;
const LATE_MAX = 64;
const LINE_BYTES_MAX = 16 * 1024 * 1024;
const STDERR_CHARS_KEPT = 500;
const ENDING_MS = 2_000;

export class StdioWire implements RpcWire, AsyncDisposable {
  readonly #child: Child;
  readonly #clock: Clock;
  readonly #waiting = new Map<number, Waiting>();
  /** Requests that were given up and may be answered all the same. */
  readonly #late = new Map<number, NonNullable<RpcRequest["onLate"]>>();
  readonly #onNotification: (method: string) => void;
  readonly #exited: Promise<void>;
  #line: Buffer[] = [];
  #lineBytes = 0;
  #nextId = 1;
  #gone = false;
  #lastWords = "";

  constructor(
    options: StdioOptions,
    ports: { readonly clock: Clock; readonly onNotification: (method: string) => void },
  ) {
    this.#clock = ports.clock;
    this.#onNotification = ports.onNotification;
    this.#child = start(options);
    this.#exited = new Promise<void>((resolve) => {
      this.#child.once("error", () => resolve());
      this.#child.once("exit", () => resolve());
    }).then(() => this.#leave());
    this.#child.stdout.on("data", (chunk: Buffer) => this.#take(chunk));
    this.#child.stderr.on("data", (chunk: Buffer) => {
      this.#lastWords = (this.#lastWords + chunk.toString("utf8")).slice(-STDERR_CHARS_KEPT);
    });
    // A write to a process that is gone fails here; its requests end with the exit.
    this.#child.stdin.on("error", () => undefined);
  }

  /** Resolves when the process is gone. */
  get exited(): Promise<void> {
    return this.#exited;
  }

  /** The end of what the process wrote to its standard error, for the log of an operator. */
  get lastWords(): string {
    return this.#lastWords;
  }

  speak(): void {
    // Lines carry no revision.
  }

  async request(request: RpcRequest): Promise<RpcAnswer> {
    if (this.#gone) throw gone(false);
    if (this.#waiting.size >= WAITING_MAX) {
      throw new NotAnswered("tool_upstream_failed", {
        sent: false,
        detail: "The tool server has too many calls open.",
      });
    }
    const id = this.#nextId;
    this.#nextId += 1;
    const settled = new AbortController();
    const answer = new Promise<RpcAnswer>((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject, onMessage: request.onMessage });
    });
    this.#write(`{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(request.method)},"params":${request.params}}`);
    const bounded = this.#bound(id, request, settled.signal);
    try {
      return await answer;
    } finally {
      this.#waiting.delete(id);
      settled.abort(SETTLED);
      await bounded;
    }
  }

  notify(method: string, params: string): Promise<void> {
    this.#write(`{"jsonrpc":"2.0","method":${JSON.stringify(method)},"params":${params}}`);
    return Promise.resolve();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.stdin.end();
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      const waited = new AbortController();
      const late = this.#clock.sleep(ENDING_MS, waited.signal);
      if ((await Promise.race([this.#exited, late])) !== "elapsed") {
        waited.abort();
        break;
      }
      this.#kill(signal);
    }
    await this.#exited;
  }

  /** Ends a request that takes too long or is no longer wanted. */
  async #bound(id: number, request: RpcRequest, settled: AbortSignal): Promise<void> {
    const end = await endOf(request, { settled, clock: this.#clock });
    if (end === "answered") return;
    const params = JSON.stringify({ requestId: id, reason: end });
    this.#write(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":${params}}`);
    if (deservesGrace(end, request) && (await this.#clock.sleep(CANCEL_GRACE_MS, settled)) === "aborted") return;
    if (request.onLate !== undefined) this.#listenOn(id, request.onLate);
    this.#waiting.get(id)?.reject(notAnswered(end));
  }

  #listenOn(id: number, onLate: NonNullable<RpcRequest["onLate"]>): void {
    const [oldest] = this.#late.keys();
    if (this.#late.size >= LATE_MAX && oldest !== undefined) this.#late.delete(oldest);
    this.#late.set(id, onLate);
  }

  #write(line: string): void {
    if (!this.#gone) this.#child.stdin.write(`${line}\n`);
  }

  #take(chunk: Buffer): void {
    let from = 0;
    for (let at = chunk.indexOf(0x0a); at >= 0; at = chunk.indexOf(0x0a, from)) {
      this.#line.push(chunk.subarray(from, at));
      const line = Buffer.concat(this.#line).toString("utf8");
      this.#line = [];
      this.#lineBytes = 0;
      from = at + 1;
      this.#takeLine(line);
    }
    this.#line.push(chunk.subarray(from));
    this.#lineBytes += chunk.length - from;
    // A line without end is no message: the server is not one to go on with.
    if (this.#lineBytes > LINE_BYTES_MAX) this.#kill("SIGKILL");
  }

  #takeLine(line: string): void {
    let message: unknown;
    try {
      message = JSON.parse(line);
    } catch {
      // Servers print greetings to the wrong stream; what is no message is nothing to us.
      return;
    }
    if (!isObject(message)) return;
    if (typeof message.method === "string") {
      if (message.id === undefined) this.#notice(message, message.method);
      else this.#answerServer(message);
    } else if (typeof message.id === "number") {
      const answer = readAnswer(message);
      if (answer === null) return;
      this.#waiting.get(message.id)?.resolve(answer);
      this.#late.get(message.id)?.(answer);
      this.#late.delete(message.id);
    }
  }

  /** Lines do not say which request they belong to; whoever asked knows its own by the token it gave. */
  #notice(message: Json, method: string): void {
    this.#onNotification(method);
    for (const { onMessage } of this.#waiting.values()) onMessage?.(message);
  }

  /** We offer servers nothing but an answer to their ping. */
  #answerServer(message: Json): void {
    const outcome =
      message.method === "ping"
        ? { result: {} }
        : { error: { code: RPC.methodNotFound, message: "This client offers nothing of that kind." } };
    this.#write(JSON.stringify({ jsonrpc: "2.0", id: message.id, ...outcome }));
  }

  #leave(): void {
    this.#gone = true;
    // What the server itself has started shares its group; at once, while the group's number is still its own.
    this.#kill("SIGKILL");
    for (const waiting of this.#waiting.values()) waiting.reject(gone(true));
    this.#child.stdout.destroy();
    this.#child.stderr.destroy();
  }

  #kill(signal: "SIGTERM" | "SIGKILL"): void {
    const { pid } = this.#child;
    if (pid === undefined) return;
    try {
      process.kill(-pid, signal);
    } catch {
      // The group is gone already.
    }
  }
}

/** `null` for a message that is neither result nor error. */
export function readAnswer(message: Json): RpcAnswer | null {
  if (isObject(message.result)) return { kind: "result", result: message.result };
  if (!isObject(message.error)) return null;
  const { code, message: text, data } = message.error;
  return {
    kind: "error",
    code: typeof code === "number" ? code : RPC.internalError,
    message: typeof text === "string" ? text : "",
    data: data ?? null,
  };
}

function start(options: StdioOptions): Child {
  const passed = PASSED_ENVIRONMENT.flatMap((name): [string, string][] => {
    const value = process.env[name];
    return value === undefined ? [] : [[name, value]];
  });
  const diesWithUs = process.platform === "linux" && existsSync(SETPRIV);
  const [command, args] = diesWithUs
    ? [SETPRIV, ["--pdeathsig", "KILL", "--", options.command, ...options.args]]
    : [options.command, [...options.args]];
  return spawn(command, args, {
    cwd: options.cwd,
    env: { ...Object.fromEntries(passed), ...options.env },
    detached: true,
    stdio: ["pipe", "pipe", "pipe"],
  });
}

function gone(sent: boolean): NotAnswered {
  return new NotAnswered("tool_upstream_failed", { sent, detail: "The tool server has ended." });
}
