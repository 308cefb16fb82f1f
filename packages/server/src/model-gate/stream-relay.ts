/**
 * Carries a provider's stream to an engine: whole frames only, as they come, as they were. Ends with what became of the
 * stream; what is still held then is for the caller, who first records the outcome.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { asPlatformError, PlatformError } from "@signalbox/contract";
import { FrameScanner, type Frame } from "../gates/sse-frames.ts";
import type { MessageStream } from "./message-stream.ts";

export type StreamEnd =
  | { readonly kind: "complete" }
  /** The provider said so itself, in an event inside its 200. */
  | { readonly kind: "provider_error"; readonly frame: Frame }
  /** Cut, stalled, unreadable, or cut by us; an engine that went away shows as the reason of the signal. */
  | { readonly kind: "broken"; readonly error: PlatformError };

export interface StreamRelayOptions {
  readonly upstream: IncomingMessage;
  readonly response: ServerResponse;
  readonly message: MessageStream;
  /** Aborted with a `PlatformError` when the call must end. */
  readonly signal: AbortSignal;
  /** Called for every chunk, and while a slow engine keeps us from reading. */
  readonly onProgress: () => void;
}

const FRAME_BYTES_MAX = 16 * 1024 * 1024;

export function relayStream(options: StreamRelayOptions): Promise<StreamEnd> {
  return new Promise((resolve) => {
    const relay = new StreamRelay(options, resolve);
    const { upstream, signal } = options;
    upstream.on("data", (chunk: Buffer) => relay.take(chunk));
    upstream.on("end", () => relay.breakOff("The model provider's stream ended before its message did."));
    upstream.on("error", () => relay.breakOff("The connection to the model provider was lost."));
    upstream.on("close", () => relay.breakOff("The connection to the model provider was lost."));
    signal.addEventListener("abort", () => relay.breakOff(""), { once: true });
    if (signal.aborted) relay.breakOff("");
  });
}

class StreamRelay {
  readonly #options: StreamRelayOptions;
  readonly #resolve: (end: StreamEnd) => void;
  readonly #scanner = new FrameScanner();
  #ended = false;

  constructor(options: StreamRelayOptions, resolve: (end: StreamEnd) => void) {
    this.#options = options;
    this.#resolve = resolve;
  }

  take(chunk: Buffer): void {
    // After the end only the rest of the provider's answer is drained, so that its connection can be used again.
    if (this.#ended) return;
    this.#options.onProgress();
    let end: StreamEnd | null = null;
    const passing: Buffer[] = [];
    try {
      for (const frame of this.#scanner.push(chunk)) {
        const fate = this.#options.message.take(frame);
        if (fate === "forward") passing.push(frame.bytes);
        else if (fate === "error") end = { kind: "provider_error", frame };
        else if (fate === "complete") end = { kind: "complete" };
        if (end !== null) break;
      }
      if (this.#scanner.pendingBytes > FRAME_BYTES_MAX) throw new PlatformError("provider_stream_broken");
    } catch (thrown) {
      end = { kind: "broken", error: asPlatformError(thrown) };
    }
    this.#write(passing);
    if (end !== null) this.#end(end);
  }

  /** The first reason counts: a signal that has been given explains the broken connection that follows from it. */
  breakOff(detail: string): void {
    if (this.#ended) return;
    const reason: unknown = this.#options.signal.aborted ? this.#options.signal.reason : undefined;
    this.#end({
      kind: "broken",
      error: reason === undefined ? new PlatformError("provider_stream_broken", detail) : asPlatformError(reason),
    });
  }

  #write(passing: readonly Buffer[]): void {
    const bytes = joined(passing);
    if (bytes === null || this.#options.response.destroyed || this.#options.response.write(bytes)) return;
    const { upstream, response, onProgress } = this.#options;
    upstream.pause();
    response.once("drain", () => {
      onProgress();
      upstream.resume();
    });
  }

  #end(end: StreamEnd): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#options.upstream.resume();
    this.#resolve(end);
  }
}

/** Frames of one chunk lie side by side in one buffer and leave in one write. */
function joined(passing: readonly Buffer[]): Buffer | null {
  const [first] = passing;
  if (first === undefined || passing.length === 1) return first ?? null;
  let length = 0;
  let adjacent = true;
  for (const each of passing) {
    adjacent &&= each.buffer === first.buffer && each.byteOffset === first.byteOffset + length;
    length += each.length;
  }
  return adjacent ? Buffer.from(first.buffer, first.byteOffset, length) : Buffer.concat(passing, length);
}
