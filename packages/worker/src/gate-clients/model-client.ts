/**
 * The model gate as an engine of ours sees it: one streamed message of the Anthropic wire per call. Retries are the
 * engine's business; this client says exactly what went wrong.
 */
import { setImmediate as turnOfEventLoop } from "node:timers/promises";
import { PlatformError } from "@signalbox/contract";
import { createParser } from "eventsource-parser";
import { modelGateError } from "./gate-errors.ts";
import type { GateConnections, GateRequest } from "./gate-connections.ts";
import { ModelMessageBuilder, type ModelDelta, type ModelMessage } from "./model-message.ts";

const ERROR_BODY_BYTES_MAX = 64 * 1024;
const STREAM_BYTES_MAX = 64 * 1024 * 1024;
/** Pieces told in a row before others of the process, whoever sends them on among them, get their turn. */
const TOLD_IN_A_ROW_MAX = 64;
const ANTHROPIC_VERSION = "2023-06-01";

/** One model call: what to ask, who hears the answer as it comes, and how to give up. */
export interface ModelCall {
  /** The request of the wire without `stream`, already valid JSON text of an object. */
  readonly body: string;
  /** Called in order for every piece of text; a returned promise holds the stream back. */
  readonly onDelta: (delta: ModelDelta) => Promise<void> | undefined;
  readonly signal: AbortSignal;
}

/** Calls the model gate for one session, with the session's slot token as the only credential. */
export class ModelClient {
  readonly #connections: GateConnections;
  readonly #url: URL;
  readonly #headers: Readonly<Record<string, string>>;

  /** `modelUrl` is the base URL of the gate; `/v1/messages` is appended. */
  constructor(connections: GateConnections, modelUrl: string, slotToken: string) {
    this.#connections = connections;
    this.#url = new URL(`${modelUrl.replace(/\/$/, "")}/v1/messages`);
    this.#headers = {
      authorization: `Bearer ${slotToken}`,
      "content-type": "application/json",
      accept: "text/event-stream",
      "anthropic-version": ANTHROPIC_VERSION,
    };
  }

  /**
   * Sends one call and resolves with the whole message. Rejects with the code of what went wrong (`provider_…`,
   * `stale_generation`, `run_cancelled` …), or with the signal's reason when it was aborted.
   */
  async send(call: ModelCall): Promise<ModelMessage> {
    const order: GateRequest = {
      url: this.#url,
      headers: this.#headers,
      body: call.body,
      signal: call.signal,
      unreachable: "provider_unreachable",
      silent: "provider_timeout",
    };
    const response = await this.#connections.post(order);
    const status = response.statusCode ?? 0;
    if (status !== 200) {
      const body = await this.#connections.readText(response, order, ERROR_BODY_BYTES_MAX);
      throw modelGateError(status, response.headers, body);
    }
    if (response.headers["content-type"]?.startsWith("text/event-stream") !== true) {
      response.destroy();
      throw new PlatformError("provider_error", "The model provider did not answer with a stream.");
    }
    return this.#readMessage(this.#connections.read(response, order, "provider_stream_broken"), call);
  }

  async #readMessage(chunks: AsyncIterable<Buffer>, call: ModelCall): Promise<ModelMessage> {
    const builder = new ModelMessageBuilder();
    const decoder = new TextDecoder();
    let deltas: ModelDelta[] = [];
    const parser = createParser({
      onEvent: ({ data }) => {
        const delta = builder.take(data);
        if (delta !== null) {
          deltas.push(delta);
        }
      },
    });
    let sizeBytes = 0;
    let toldCount = 0;
    for await (const chunk of chunks) {
      sizeBytes += chunk.byteLength;
      if (sizeBytes > STREAM_BYTES_MAX) {
        throw new PlatformError("payload_too_large", `The model's answer is larger than ${STREAM_BYTES_MAX} bytes.`);
      }
      try {
        parser.feed(decoder.decode(chunk, { stream: true }));
      } finally {
        // What came before an error was said, and is told.
        const told = deltas;
        deltas = [];
        for (const delta of told) {
          await call.onDelta(delta);
          // The first piece leaves before the rest of a burst is looked at.
          if (toldCount % TOLD_IN_A_ROW_MAX === 0) {
            await turnOfEventLoop();
            call.signal.throwIfAborted();
          }
          toldCount += 1;
        }
      }
    }
    return builder.finish();
  }
}
