/**
 * Open `subscriptions/listen` streams. There is nothing to tell on them, because a session's list of tools is frozen;
 * they are acknowledged, kept alive, and ended when the gate ends.
 */
import type { ServerResponse } from "node:http";
import type { Clock } from "@signalbox/core";
import { META_SUBSCRIPTION } from "./mcp-protocol.ts";
import { KEEP_ALIVE_COMMENT, STREAM_HEADERS } from "./mcp-reply.ts";
import type { McpRequest } from "./mcp-request.ts";

const KEEP_ALIVE_MS = 15_000;
/** More than a client of one session opens; beyond it the oldest ends. */
const STREAMS_PER_SLOT_MAX = 8;

export class ListenStreams implements AsyncDisposable {
  readonly #clock: Clock;
  readonly #open = new Map<string, Set<ServerResponse>>();
  readonly #stop = new AbortController();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves when the stream has ended. */
  async serve(exchange: {
    readonly request: McpRequest;
    readonly response: ServerResponse;
    readonly tokenHash: string;
  }): Promise<void> {
    const { request, response, tokenHash } = exchange;
    const gone = new AbortController();
    response.on("close", () => gone.abort());
    response.writeHead(200, STREAM_HEADERS);
    response.write(acknowledgement(request));
    this.#keep(tokenHash, response);
    const ended = AbortSignal.any([gone.signal, this.#stop.signal]);
    while ((await this.#clock.sleep(KEEP_ALIVE_MS, ended)) === "elapsed") response.write(KEEP_ALIVE_COMMENT);
    this.#open.get(tokenHash)?.delete(response);
    if (this.#open.get(tokenHash)?.size === 0) this.#open.delete(tokenHash);
    response.end();
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    return Promise.resolve();
  }

  #keep(tokenHash: string, response: ServerResponse): void {
    const streams = this.#open.get(tokenHash) ?? new Set();
    streams.add(response);
    this.#open.set(tokenHash, streams);
    if (streams.size > STREAMS_PER_SLOT_MAX) {
      const [oldest] = streams;
      oldest?.end();
    }
  }
}

/** What was subscribed to: nothing, since no list of ours changes. */
function acknowledgement(request: McpRequest): string {
  const notification = {
    jsonrpc: "2.0",
    method: "notifications/subscriptions/acknowledged",
    params: { notifications: {}, _meta: { [META_SUBSCRIPTION]: request.id } },
  };
  return `event: message\ndata: ${JSON.stringify(notification)}\n\n`;
}
