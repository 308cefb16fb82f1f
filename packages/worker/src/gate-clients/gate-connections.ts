/**
 * Kept connections to the gates and one request over them. `node:http` with a keep-alive agent, because it has the
 * lowest latency of what Node offers: head and body leave in one write, and nothing stands between socket and parser.
 */
import { Agent as HttpAgent, request as httpRequest, type ClientRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { PlatformError, type ErrorCode } from "@signalbox/contract";

/** A gate says something within this time, even if it only keeps the connection alive. */
const SILENCE_MAX_MS = 10 * 60_000;
/** Tries on a kept connection that the other side closed while we wrote. */
const STALE_SOCKET_TRIES_MAX = 3;

export interface GateRequest {
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  readonly signal: AbortSignal;
  /** What it is called when the gate cannot be reached, and when it falls silent. */
  readonly unreachable: ErrorCode;
  readonly silent: ErrorCode;
}

/** Connections of one executor, shared by its sessions. Disposing of them cuts requests that are still open. */
export class GateConnections implements Disposable {
  readonly #http = new HttpAgent({ keepAlive: true, scheduling: "lifo" });
  readonly #https = new HttpsAgent({ keepAlive: true, scheduling: "lifo" });

  /** Resolves with the head of the answer. An abort rejects with the signal's reason. */
  async post(order: GateRequest): Promise<IncomingMessage> {
    for (let triesCount = 1; ; triesCount += 1) {
      order.signal.throwIfAborted();
      const sent = this.#send(order);
      try {
        return await sent.response;
      } catch (thrown) {
        order.signal.throwIfAborted();
        // Nothing came back on a kept connection that was just being closed: the gate has not seen the request.
        if (!sent.request.reusedSocket || !isReset(thrown) || triesCount >= STALE_SOCKET_TRIES_MAX) {
          throw gateProblem(order, thrown);
        }
      }
    }
  }

  /** The body of an answer, chunk by chunk. A cut connection rejects with `broken`, an abort with the signal's reason. */
  async *read(response: IncomingMessage, order: GateRequest, broken: ErrorCode): AsyncGenerator<Buffer> {
    try {
      // Without an encoding a response yields buffers.
      yield* response as AsyncIterable<Buffer>;
    } catch (thrown) {
      order.signal.throwIfAborted();
      throw thrown instanceof PlatformError ? thrown : new PlatformError(broken, undefined, { cause: thrown });
    }
    if (!response.complete) {
      throw new PlatformError(broken);
    }
  }

  /** The whole body as text, at most `limitBytes`; the rest is left unread and the connection dropped. */
  async readText(response: IncomingMessage, order: GateRequest, limitBytes: number): Promise<string> {
    const chunks: Buffer[] = [];
    let sizeBytes = 0;
    for await (const chunk of this.read(response, order, order.unreachable)) {
      sizeBytes += chunk.byteLength;
      if (sizeBytes > limitBytes) {
        response.destroy();
        throw new PlatformError("payload_too_large", `A gate answered with more than ${limitBytes} bytes.`);
      }
      chunks.push(chunk);
    }
    return Buffer.concat(chunks).toString("utf8");
  }

  [Symbol.dispose](): void {
    this.#http.destroy();
    this.#https.destroy();
  }

  #send(order: GateRequest): { readonly request: ClientRequest; readonly response: Promise<IncomingMessage> } {
    const secure = order.url.protocol === "https:";
    const request = (secure ? httpsRequest : httpRequest)(order.url, {
      method: "POST",
      agent: secure ? this.#https : this.#http,
      headers: { ...order.headers, "content-length": String(Buffer.byteLength(order.body)) },
      timeout: SILENCE_MAX_MS,
    });
    const response = new Promise<IncomingMessage>((resolve, reject) => {
      // Not by Node's own option: aborting a request whose answer is complete brings down the process with an error that
      // nobody can listen to.
      const abort = (): void => {
        if (answer?.complete !== true) {
          request.destroy(new PlatformError("run_cancelled"));
        }
      };
      let answer: IncomingMessage | null = null;
      order.signal.addEventListener("abort", abort, { once: true });
      request.once("close", () => order.signal.removeEventListener("abort", abort));
      request.once("response", (head) => {
        answer = head;
        resolve(head);
      });
      // Stays for the life of the request: an error after the head also reaches the body, which is read elsewhere.
      request.on("error", reject);
      request.once("timeout", () => request.destroy(new PlatformError(order.silent)));
    });
    request.end(order.body);
    return { request, response };
  }
}

function gateProblem(order: GateRequest, thrown: unknown): PlatformError {
  return thrown instanceof PlatformError ? thrown : new PlatformError(order.unreachable, undefined, { cause: thrown });
}

function isReset(thrown: unknown): boolean {
  return thrown instanceof Error && "code" in thrown && (thrown.code === "ECONNRESET" || thrown.code === "EPIPE");
}
