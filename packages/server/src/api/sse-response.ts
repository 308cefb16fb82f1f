/** One SSE response: headers that keep proxies from buffering, whole frames, a heartbeat in every phase. */
import type { ServerResponse } from "node:http";

/** Comment frames come at least this often, also when nothing happens. */
export const HEARTBEAT_EVERY_MS = 10_000;
/** A reader that takes nothing for this long is cut off; it resumes where it stood. */
export const STUCK_READER_MS = 60_000;
const RETRY_MS = 1_000;

const SSE_HEADERS = {
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

  /** Says why the stream ends, and ends it. */
  close(reason: string): void {
    if (this.#gone.signal.aborted) return;
    this.#response.end(`event: stream.closing\ndata: ${JSON.stringify({ reason })}\n\n`);
  }

  [Symbol.dispose](): void {
    clearInterval(this.#heartbeat);
    this.#response.end();
  }

  async #drained(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const done = (): void => resolve();
    const stuck = setTimeout(() => this.#response.destroy(), STUCK_READER_MS);
    this.#response.once("drain", done);
    this.#gone.signal.addEventListener("abort", done, { once: true });
    if (this.#gone.signal.aborted) done();
    await promise;
    clearTimeout(stuck);
    this.#response.off("drain", done);
    this.#gone.signal.removeEventListener("abort", done);
  }
}
