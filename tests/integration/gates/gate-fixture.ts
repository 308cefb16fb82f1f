/** A model gate in front of a scripted model, and an engine that asks it, as one disposable thing. */
import { startSim, type RawAnswer, type Script, type Sim } from "@signalbox/testkit";
import type { Snapshot } from "@signalbox/contract";
import type { Log } from "@signalbox/core";
import { createGateServer, type Gate, type GateServer } from "../../../packages/server/src/gates/gate-server.ts";
import { createModelGate, type ModelGate } from "../../../packages/server/src/model-gate/model-gate.ts";
import type { ModelGateLimits } from "../../../packages/server/src/model-gate/model-gate-limits.ts";
import type { Provider } from "../../../packages/server/src/model-gate/providers.ts";
import { systemClock, systemDigest, systemRandomness } from "../../../packages/server/src/system/ports.ts";
import { allowing } from "./allowing.ts";
import { snapshotWith, TOKEN, WatchedRecord } from "./watched-record.ts";

export interface LogLine {
  readonly level: "info" | "warn" | "error";
  readonly text: string;
}

export function recordingLog(): Log & { readonly lines: LogLine[] } {
  const lines: LogLine[] = [];
  const put = (level: LogLine["level"], parts: readonly unknown[]): void => {
    lines.push({
      level,
      text: parts.map((part) => (part instanceof Error ? String(part.stack) : JSON.stringify(part))).join(" "),
    });
  };
  return {
    lines,
    info: (...parts) => put("info", parts),
    warn: (...parts) => put("warn", parts),
    error: (...parts) => put("error", parts),
  };
}

export interface ModelFixture extends AsyncDisposable {
  readonly sim: Sim;
  readonly record: WatchedRecord;
  readonly gate: ModelGate;
  readonly server: GateServer;
  readonly log: ReturnType<typeof recordingLog>;
  readonly url: string;
}

export interface ModelFixtureOptions {
  readonly script?: Script;
  readonly snapshot?: Partial<Snapshot>;
  readonly limits?: Partial<ModelGateLimits>;
  readonly providers?: readonly Provider[];
  readonly apiKey?: string;
  readonly withheldTools?: readonly string[];
}

const nothing: Gate = { handle: (_request, response) => response.writeHead(404).end() };

export async function startModelFixture(options: ModelFixtureOptions = {}): Promise<ModelFixture> {
  const sim = await startSim({ script: options.script });
  const record = await WatchedRecord.open(snapshotWith(options.snapshot ?? {}));
  const log = recordingLog();
  const provider: Provider = {
    name: "sim",
    baseUrl: sim.url,
    wire: "anthropic",
    apiKey: options.apiKey ?? null,
    simulated: true,
  };
  const gate = createModelGate({
    record,
    judge: allowing,
    providers: options.providers ?? [provider],
    clock: systemClock,
    process: () => record.process,
    digest: systemDigest,
    randomness: systemRandomness,
    log,
    withheldTools: () => new Set(options.withheldTools),
    ...(options.limits === undefined ? {} : { limits: options.limits }),
  });
  const server = await createGateServer({
    modelGate: gate,
    toolGate: nothing,
    connectRoutes: [],
    messageBytesMax: 1024 * 1024,
    host: "127.0.0.1",
    port: 0,
    clock: systemClock,
  });
  return {
    sim,
    record,
    gate,
    server,
    log,
    url: `${server.url}/model`,
    async [Symbol.asyncDispose]() {
      await gate[Symbol.asyncDispose]();
      await server.close({ graceMs: 200 });
      await sim.close();
    },
  };
}

export const raw = (...chunks: RawAnswer["raw"]["chunks"]): RawAnswer => ({ raw: { chunks } });

export interface EngineAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
}

export interface EngineRequest {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  readonly path?: string;
  readonly method?: string;
  readonly signal?: AbortSignal;
}

export const MESSAGE = {
  model: "sim/sim-1",
  max_tokens: 1_024,
  stream: true,
  messages: [{ role: "user", content: "Hello" }],
};

/** Sends one request as an engine does and reads the answer whole. */
export async function ask(url: string, request: EngineRequest = {}): Promise<EngineAnswer> {
  const response = await open(url, request);
  return { status: response.status, headers: response.headers, body: await response.text() };
}

export function open(url: string, request: EngineRequest = {}): Promise<Response> {
  const { body = MESSAGE, method = "POST" } = request;
  return fetch(`${url}${request.path ?? "/v1/messages"}`, {
    method,
    headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json", ...request.headers },
    ...(method === "POST" ? { body: bodyOf(body) } : {}),
    ...(request.signal === undefined ? {} : { signal: request.signal }),
  });
}

function bodyOf(body: unknown): string | Blob {
  if (body instanceof Uint8Array) return new Blob([Uint8Array.from(body)]);
  return typeof body === "string" ? body : JSON.stringify(body);
}

/** A reader of an open stream that waits for text to appear. */
export class StreamReader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>;
  readonly #decoder = new TextDecoder();
  seen = "";

  constructor(response: Response) {
    if (response.body === null) throw new Error("the answer has no body");
    this.#reader = response.body.getReader();
  }

  async until(wanted: string): Promise<string> {
    while (!this.seen.includes(wanted)) {
      const { value, done } = await this.#reader.read();
      if (done) throw new Error(`the stream ended before "${wanted}"; it said: ${this.seen}`);
      this.seen += this.#decoder.decode(value, { stream: true });
    }
    return this.seen;
  }

  async toEnd(): Promise<string> {
    for (;;) {
      const { value, done } = await this.#reader.read();
      if (done) return this.seen;
      this.seen += this.#decoder.decode(value, { stream: true });
    }
  }
}

/** Waits until `holds`, looking every few milliseconds, for at most `withinMs`. */
export async function until(holds: () => boolean, withinMs = 5_000): Promise<void> {
  const deadlineMs = performance.now() + withinMs;
  while (!holds()) {
    if (performance.now() > deadlineMs) {
      throw new Error(`nothing came of it within ${withinMs} ms: ${holds.toString()}`);
    }
    await systemClock.sleep(2);
  }
}
