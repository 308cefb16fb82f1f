/** One SSE response: headers that keep proxies from buffering, whole frames, a heartbeat in every phase. */
import type { ServerResponse } from "node:http";

/** Comment frames come at least this often, also when nothing happens. */
export const HEARTBEAT_EVERY_MS = 10_000;
const RETRY_MS = 1_000;

export const SSE_HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
  connection: "keep-alive",
} as const;

export class SseResponse implements Disposable {
  readonly #response: ServerResponse;
  readonly #heartbeat: NodeJS.Timeout;
  readonly #gone = new AbortController();

  constructor(response: ServerResponse, headers: Readonly<Record<string, string>>) {
    this.#response = response;
    response.on("close", () => this.#gone.abort());
    response.writeHead(200, { ...SSE_HEADERS, ...headers });
    response.socket?.setNoDelay(true);
    response.write(`retry: ${RETRY_MS}\n\n`);
    this.#heartbeat = setInterval(() => response.write(": still here\n\n"), HEARTBEAT_EVERY_MS);
    this.#heartbeat.unref();
  }

  /** Aborts when the reader has gone. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /** Waits while the reader is slow, so that a stream never piles up in memory. */
  async send(frame: { readonly type: string; readonly data: string; readonly id: number | null }): Promise<void> {
    if (this.#gone.signal.aborted) return;
    const id = frame.id === null ? "" : `id: ${frame.id}\n`;
    if (!this.#response.write(`${id}event: ${frame.type}\ndata: ${frame.data}\n\n`)) await this.#drained();
  }

  close(reason: string): void {
    if (!this.#gone.signal.aborted)
      this.#response.end(`event: stream.closing\ndata: ${JSON.stringify({ reason })}\n\n`);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#heartbeat);
    this.#response.end();
  }

  #drained(): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        this.#response.off("drain", done);
        this.#response.off("close", done);
        resolve();
      };
      this.#response.on("drain", done);
      this.#response.on("close", done);
      if (this.#gone.signal.aborted) done();
    });
  }
}
