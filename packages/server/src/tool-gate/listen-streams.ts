/**
 * Open `subscriptions/listen` streams: acknowledged with what of the wish can be told, kept alive, told of changes, and
 * ended when the gate ends. Engines are told of nothing, because a session's list of tools is frozen.
 */
import type { ServerResponse } from "node:http";
import type { Clock } from "@signalbox/core";
import { isObject, META_SUBSCRIPTION, type Json } from "./mcp-protocol.ts";
import { KEEP_ALIVE_COMMENT, STREAM_HEADERS } from "./mcp-reply.ts";
import type { McpRequest, RpcId } from "./mcp-request.ts";

const KEEP_ALIVE_MS = 15_000;
/** More than a client of one session opens; beyond it the oldest ends. */
const STREAMS_PER_SLOT_MAX = 8;

/** Lists a client may want to hear of, by the member of the wish that names them. */
const NOTIFICATIONS = { toolsListChanged: "notifications/tools/list_changed" } as const;

export type ChangingList = keyof typeof NOTIFICATIONS;

interface Listener {
  readonly response: ServerResponse;
  readonly id: RpcId;
  readonly lists: readonly ChangingList[];
}

export class ListenStreams implements AsyncDisposable {
  readonly #clock: Clock;
  readonly #open = new Map<string, Set<Listener>>();
  readonly #stop = new AbortController();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves when the stream has ended. */
  async serve(exchange: {
    readonly request: McpRequest;
    readonly response: ServerResponse;
    /** Whose streams these are. */
    readonly tokenHash: string;
    /** Lists whose changes can be told. */
    readonly lists?: readonly ChangingList[];
  }): Promise<void> {
    const { request, response, tokenHash } = exchange;
    const wished = isObject(request.params.notifications) ? request.params.notifications : {};
    const lists = (exchange.lists ?? []).filter((list) => wished[list] === true);
    const listener = { response, id: request.id, lists };
    const gone = new AbortController();
    response.on("close", () => gone.abort());
    response.writeHead(200, STREAM_HEADERS);
    response.write(acknowledgement(listener));
    this.#keep(tokenHash, listener);
    const ended = AbortSignal.any([gone.signal, this.#stop.signal]);
    while ((await this.#clock.sleep(KEEP_ALIVE_MS, ended)) === "elapsed") response.write(KEEP_ALIVE_COMMENT);
    this.#open.get(tokenHash)?.delete(listener);
    if (this.#open.get(tokenHash)?.size === 0) this.#open.delete(tokenHash);
    response.end();
  }

  /** Tells everybody who wanted to hear of it that a list has changed. */
  announce(list: ChangingList): void {
    for (const { response, id, lists } of [...this.#open.values()].flatMap((each) => [...each])) {
      if (lists.includes(list)) response.write(frameOf(NOTIFICATIONS[list], { _meta: { [META_SUBSCRIPTION]: id } }));
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    return Promise.resolve();
  }

  #keep(tokenHash: string, listener: Listener): void {
    const streams = this.#open.get(tokenHash) ?? new Set();
    streams.add(listener);
    this.#open.set(tokenHash, streams);
    if (streams.size > STREAMS_PER_SLOT_MAX) {
      const [oldest] = streams;
      oldest?.response.end();
    }
  }
}

function acknowledgement({ id, lists }: Listener): string {
  const notifications = Object.fromEntries(lists.map((list) => [list, true]));
  return frameOf("notifications/subscriptions/acknowledged", { notifications, _meta: { [META_SUBSCRIPTION]: id } });
}

function frameOf(method: string, params: Json): string {
  return `event: message\ndata: ${JSON.stringify({ jsonrpc: "2.0", method, params })}\n\n`;
}
