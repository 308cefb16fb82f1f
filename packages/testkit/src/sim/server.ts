/**
 * `sim`, a model server that needs no provider: seeded, deterministic, on this machine only. It speaks the Anthropic
 * Messages wire and the OpenAI chat completions, responses and embeddings wires. By itself it answers extractively,
 * from tool results and passages; scripts and markers in messages make it do anything a provider may do.
 */
import { once } from "node:events";
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { PlatformError } from "@signalbox/contract";
import type { AnswerSettings } from "./answer.ts";
import { type Exchange, openExchange } from "./exchange.ts";
import { type IdMode, idSource } from "./ids.ts";
import { type MutableRecord, newRecording, type RecordedRequest, type Recording } from "./recording.ts";
import { routeOf } from "./routes.ts";
import { readBytes, serve, type ServeContext } from "./serve.ts";
import type { NamedScript, Script } from "./script.ts";
import { newTally } from "./tally.ts";
import { nowMs } from "./timestamps.ts";

/** How `startSim` sets up the server. Durations are milliseconds; every member may be left out. */
export interface SimOptions {
  /** 0, the default, takes any free port. */
  readonly port?: number | undefined;
  /** Default 127.0.0.1. */
  readonly host?: string | undefined;
  /** Ids, wordings and vectors depend on it. Default 1. */
  readonly seed?: number | undefined;
  /** `stable` (default): the same request has the same ids. `unique`: every request has its own, as with a real provider. */
  readonly ids?: IdMode | undefined;
  /** Before the first token of every answer. Default 0. */
  readonly firstTokenDelayMs?: number | undefined;
  /** Before each token of every answer. Default 0. */
  readonly tokenDelayMs?: number | undefined;
  /** Answer everything with so many tokens and look at nothing: for measurements. */
  readonly instant?: { readonly tokens: number; readonly timestamps?: boolean } | undefined;
  /** What to answer, request by request, instead of answering by itself. */
  readonly script?: Script | undefined;
  /** Scripts a message can choose with `[[script:name]]`. */
  readonly scripts?: Readonly<Record<string, NamedScript>> | undefined;
  /** Write thinking blocks where the request allows them. Default false. */
  readonly thinking?: boolean | undefined;
  /** Tool calls for one message, at most. Default 8. */
  readonly mostToolCalls?: number | undefined;
  /** Refuse requests that come without this key. Default: any key, or none, will do. */
  readonly apiKey?: string | undefined;
  /** Keep the bodies of requests. Default true, false with `instant`. */
  readonly recordBodies?: boolean | undefined;
  /** Default 10,000; the oldest are dropped. */
  readonly mostRecorded?: number | undefined;
}

/** A running `sim`: where it is and what it was asked. Disposing of it closes it. */
export interface Sim extends AsyncDisposable {
  readonly url: string;
  readonly port: number;
  readonly requests: readonly RecordedRequest[];
  /** The requests for an answer alone, in order. */
  modelRequests(): readonly RecordedRequest[];
  /** Waits until the condition holds, checked after every change; ends with `internal` after `withinMs` (default 5,000). */
  waitFor(holds: (requests: readonly RecordedRequest[]) => boolean, withinMs?: number): Promise<void>;
  /** Cuts every open connection and stops listening. */
  close(): Promise<void>;
}

const DEFAULT_MOST_CALLS = 8;
const DEFAULT_MOST_RECORDED = 10_000;
const DEFAULT_WAIT_MS = 5_000;
/** Longer than clients keep a connection they do not use, so that none is closed under a request on its way. */
const KEEP_ALIVE_MS = 75_000;

/** Opens the server. Ends with `invalid_request` when the address cannot be taken. */
export async function startSim(options: SimOptions = {}): Promise<Sim> {
  const recording = newRecording(options.mostRecorded ?? DEFAULT_MOST_RECORDED);
  const context = contextOf(options, recording);
  const seed = context.settings.seed;
  let ordinal = 0;
  const working = new Set<Promise<void>>();
  const server = createServer((incoming, response) => {
    const work = handle({ incoming, response }, { ordinal, options, context, recording, seed }).finally(() => {
      working.delete(work);
    });
    ordinal += 1;
    working.add(work);
  });
  server.keepAliveTimeout = KEEP_ALIVE_MS;
  const host = options.host ?? "127.0.0.1";
  const port = await listen(server, { host, port: options.port ?? 0 });
  const close = async () => {
    const closed = server.listening ? once(server, "close") : null;
    server.close();
    server.closeAllConnections();
    await closed;
    await Promise.all(working);
  };
  return {
    url: `http://${host.includes(":") ? `[${host}]` : host}:${port}`,
    port,
    requests: recording.requests,
    modelRequests: () => recording.requests.filter((request) => request.wire !== null),
    waitFor: (holds, withinMs) => recording.waitFor(holds, withinMs ?? DEFAULT_WAIT_MS),
    close,
    [Symbol.asyncDispose]: close,
  };
}

function contextOf(options: SimOptions, recording: Recording): ServeContext {
  const settings: AnswerSettings = {
    seed: options.seed ?? 1,
    script: options.script ?? null,
    scripts: new Map(Object.entries(options.scripts ?? {})),
    instant:
      options.instant === undefined
        ? null
        : { tokens: options.instant.tokens, timestamps: options.instant.timestamps ?? false },
    thinking: options.thinking ?? false,
    mostCalls: options.mostToolCalls ?? DEFAULT_MOST_CALLS,
  };
  let place = 0;
  return {
    settings,
    tally: newTally(),
    place: () => {
      place += 1;
      return place - 1;
    },
    apiKey: options.apiKey ?? null,
    firstTokenDelayMs: options.firstTokenDelayMs ?? 0,
    tokenDelayMs: options.tokenDelayMs ?? 0,
    recordBodies: options.recordBodies ?? options.instant === undefined,
    requests: recording.requests,
  };
}

async function listen(server: Server, address: { readonly host: string; readonly port: number }): Promise<number> {
  server.listen(address);
  try {
    await once(server, "listening");
  } catch (cause) {
    throw new PlatformError(
      "invalid_request",
      `The simulated model cannot listen on ${address.host}:${address.port}.`,
      {
        cause,
      },
    );
  }
  const bound = server.address() as AddressInfo; // A TCP server that listens has an address of this kind.
  return bound.port;
}

interface Pair {
  readonly incoming: IncomingMessage;
  readonly response: ServerResponse;
}

interface HandleContext {
  readonly ordinal: number;
  readonly options: SimOptions;
  readonly context: ServeContext;
  readonly recording: Recording;
  readonly seed: number;
}

/** Never rejects: whatever goes wrong ends this exchange and is visible in its record. */
async function handle(pair: Pair, { ordinal, options, context, recording, seed }: HandleContext): Promise<void> {
  const { incoming, response } = pair;
  const bytes = await readBytes(incoming).catch(() => undefined);
  if (bytes === undefined) {
    return; // The caller left before its request was whole.
  }
  const record = recordOf(incoming, { ordinal, bodyBytes: bytes?.length ?? 0 });
  response.once("close", () => {
    record.closedAtMs = nowMs();
    record.finished = response.writableFinished;
    recording.changed();
  });
  const ids = idSource({ seed, mode: options.ids ?? "stable", body: bytes ?? Buffer.alloc(0), ordinal });
  const exchange: Exchange = openExchange({ ...pair, ids, record, changed: recording.changed });
  recording.add(record);
  try {
    await serve(exchange, bytes, context);
  } catch (error) {
    // A defect of the double must not look like a slow provider.
    process.stderr.write(`sim: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
    response.destroy();
  }
}

function recordOf(
  incoming: IncomingMessage,
  { ordinal, bodyBytes }: { readonly ordinal: number; readonly bodyBytes: number },
): MutableRecord {
  const method = incoming.method ?? "GET";
  const path = (incoming.url ?? "/").split("?")[0] ?? "/";
  const route = routeOf(method, path);
  return {
    ordinal,
    method,
    path,
    headers: incoming.headers,
    body: null,
    bodyBytes,
    wire: route?.to === "model" ? route.wire.name : null,
    arrivedAtMs: nowMs(),
    status: null,
    tokenCount: 0,
    closedAtMs: null,
    finished: false,
  };
}
