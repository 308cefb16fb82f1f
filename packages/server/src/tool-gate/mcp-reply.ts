/**
 * The answer to one MCP request. It is plain JSON when it comes soon; when it takes long it becomes a stream that shows
 * life in comments until the answer is there, so that nothing between engine and gate takes silence for the end.
 */
import type { ServerResponse } from "node:http";
import { CODE_HEADER, type ErrorCode } from "@signalbox/contract";
import type { Clock } from "@signalbox/core";
import type { Json } from "./mcp-protocol.ts";
import type { RpcId } from "./mcp-request.ts";

export const STREAM_HEADERS = {
  "content-type": "text/event-stream",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
} as const;

export const KEEP_ALIVE_COMMENT = ": still here\n\n";

export interface McpError {
  /** HTTP status, when nothing has been written yet. */
  readonly status: number;
  readonly rpcCode: number;
  readonly message: string;
  /** Our code, also in a header and in `data.code`. */
  readonly code: ErrorCode | null;
  readonly data?: Json | null;
}

export class McpReply {
  readonly #response: ServerResponse;
  readonly #id: RpcId | null;
  readonly #headers: Readonly<Record<string, string>>;

  /** `headers` go with the answer, whichever it becomes. */
  constructor(response: ServerResponse, id: RpcId | null, headers: Readonly<Record<string, string>> = {}) {
    this.#response = response;
    this.#id = id;
    this.#headers = headers;
  }

  /** The same answer, about the request whose id could be read after all. */
  about(id: RpcId | null): McpReply {
    return this.#id === null && id !== null ? new McpReply(this.#response, id, this.#headers) : this;
  }

  /** Shows life from `quietMs` on, for as long as `done` is not aborted. */
  async keepAlive(clock: Clock, quietMs: number, done: AbortSignal): Promise<void> {
    while ((await clock.sleep(quietMs, done)) === "elapsed" && !this.#response.destroyed) {
      this.frame(KEEP_ALIVE_COMMENT);
    }
  }

  /** `result` is JSON text. */
  result(result: string): void {
    this.#send(200, `{"jsonrpc":"2.0","id":${JSON.stringify(this.#id)},"result":${result}}`, {});
  }

  /** Something that belongs to the request and comes before its answer. */
  frame(frame: string | Buffer): void {
    if (this.#response.destroyed || this.#response.writableEnded) return;
    if (!this.#response.headersSent) this.#response.writeHead(200, { ...STREAM_HEADERS, ...this.#headers });
    this.#response.write(frame);
  }

  /** Ends a stream whose last frame was the answer. */
  end(): void {
    if (!this.#response.headersSent) this.#response.writeHead(200, { ...STREAM_HEADERS, ...this.#headers });
    this.#response.end();
  }

  /** A whole message, relayed with the status it came with. */
  message(status: number, body: string): void {
    this.#send(status, body, {});
  }

  error(error: McpError): void {
    const data = error.code === null ? (error.data ?? null) : { ...error.data, code: error.code };
    const body = { code: error.rpcCode, message: error.message, ...(data === null ? {} : { data }) };
    this.#send(
      error.status,
      JSON.stringify({ jsonrpc: "2.0", id: this.#id, error: body }),
      error.code === null ? {} : { [CODE_HEADER]: error.code },
    );
  }

  #send(status: number, body: string, headers: Readonly<Record<string, string>>): void {
    if (this.#response.destroyed || this.#response.writableEnded) return;
    if (this.#response.headersSent) {
      this.#response.end(`event: message\ndata: ${body}\n\n`);
      return;
    }
    this.#response.writeHead(status, {
      "content-type": "application/json",
      ...this.#headers,
      ...headers,
    });
    this.#response.end(body);
  }
}
