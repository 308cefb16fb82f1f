/**
 * One SSE response: headers that keep proxies from buffering, whole frames, a heartbeat in every phase. What a slow
 * reader has not taken never piles up: nothing is written while it is behind, and one that takes nothing is cut off.
 */
import type { ServerResponse } from "node:http";

/**
 * A comment comes when nothing was written for this long, whatever the run is doing. Proxies and clients are promised
 * 15 s; what lies between is room for a busy process and a slow network.
 */
export const HEARTBEAT_AFTER_MS = 8_000;
/** A reader that takes nothing for this long is cut off; it resumes where it stood. */
export const SLOW_READER_MS = 60_000;
/** How long a reader that was cut off may take to hear why. */
export const FAREWELL_MS = 30_000;
const RETRY_MS = 1_000;

const SSE_HEADERS = {
  "content-type": "text/event-stream; charset=utf-8",
  "cache-control": "no-cache, no-transform",
  "x-accel-buffering": "no",
  connection: "keep-alive",
} as const;

export interface SseOptions {
  readonly headers: Readonly<Record<string, string>>;
  readonly slowReaderMs?: number | undefined;
}

export interface SseFrame {
  readonly type: string;
  readonly data: string;
  /** Where a reader resumes: only what the record has has one. */
  readonly id: number | string | null;
}

export class SseResponse implements Disposable {
  readonly #response: ServerResponse;
  readonly #slowReaderMs: number;
  readonly #gone = new AbortController();
  #heartbeat: NodeJS.Timeout;
  #cursor: number | string | null = null;

  constructor(response: ServerResponse, options: SseOptions) {
    this.#response = response;
    this.#slowReaderMs = options.slowReaderMs ?? SLOW_READER_MS;
    response.on("close", () => this.#leave());
    response.writeHead(200, { ...SSE_HEADERS, ...options.headers });
    response.socket?.setNoDelay(true);
    this.#heartbeat = setTimeout(() => this.#beat(), HEARTBEAT_AFTER_MS);
    this.#write(`retry: ${RETRY_MS}\n\n`);
    // Who left before anybody listened has left all the same.
    if (response.closed) this.#leave();
  }

  /** Aborts when the reader has gone, or was cut off. */
  get gone(): AbortSignal {
    return this.#gone.signal;
  }

  /** Waits while the reader is slow, so that a stream never piles up in memory. */
  async send(frame: SseFrame): Promise<void> {
    if (this.#gone.signal.aborted) return;
    const id = frame.id === null ? "" : `id: ${frame.id}\n`;
    const room = this.#write(`${id}event: ${frame.type}\ndata: ${frame.data}\n\n`);
    this.#cursor = frame.id ?? this.#cursor;
    if (!room) await this.#drained();
  }

  /** Says why the stream ends, and up to where it was written, and ends it. */
  close(reason: string): void {
    if (this.#gone.signal.aborted) return;
    clearTimeout(this.#heartbeat);
    this.#response.end(`event: stream.closing\ndata: ${JSON.stringify({ reason, cursor: this.#cursor })}\n\n`);
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#heartbeat);
    this.#response.end();
  }

  /** False when the reader is behind. Every byte puts the heartbeat off, none is later than one. */
  #write(text: string): boolean {
    this.#heartbeat.refresh();
    return this.#response.write(text);
  }

  #beat(): void {
    // Bytes are waiting for the reader as it is; more would only pile up.
    if (this.#response.writableNeedDrain) this.#heartbeat.refresh();
    else this.#write(": still here\n\n");
  }

  #leave(): void {
    clearTimeout(this.#heartbeat);
    this.#gone.abort();
  }

  async #drained(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const done = (): void => resolve();
    const slow = setTimeout(() => this.#cut(), this.#slowReaderMs);
    this.#response.once("drain", done);
    this.#gone.signal.addEventListener("abort", done, { once: true });
    if (this.#gone.signal.aborted) done();
    await promise;
    clearTimeout(slow);
    this.#response.off("drain", done);
    this.#gone.signal.removeEventListener("abort", done);
  }

  /** The reason stands behind what the reader has not taken; should it read on, it hears it, and then resumes. */
  #cut(): void {
    this.close("slow_reader");
    const farewell = setTimeout(() => this.#response.destroy(), FAREWELL_MS);
    farewell.unref();
    this.#response.once("close", () => clearTimeout(farewell));
    this.#leave();
  }
}
