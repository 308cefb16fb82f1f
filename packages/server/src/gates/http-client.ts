/** Requests of the gates to providers and tool servers: kept-alive connections, no redirects, cut by a signal. */
import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";

export interface OutgoingRequest {
  readonly url: URL;
  readonly method: "GET" | "POST" | "DELETE";
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | null;
  /** Aborting closes the socket, before and after the answer has begun. */
  readonly signal: AbortSignal;
}

const IDLE_SOCKETS_MAX = 64;

export class HttpClient implements Disposable {
  readonly #plain = new HttpAgent({ keepAlive: true, maxFreeSockets: IDLE_SOCKETS_MAX });
  readonly #secure = new HttpsAgent({ keepAlive: true, maxFreeSockets: IDLE_SOCKETS_MAX });

  /** The head of the answer; its body is read from the message. Rejects with the socket's own error. */
  async send(outgoing: OutgoingRequest): Promise<IncomingMessage> {
    try {
      return await this.#attempt(outgoing);
    } catch (thrown) {
      // A kept connection that the other side had closed meanwhile: nothing of the request was looked at.
      if (thrown instanceof ClosedWhileIdle && !outgoing.signal.aborted) return await this.#attempt(outgoing);
      throw thrown;
    }
  }

  [Symbol.dispose](): void {
    this.#plain.destroy();
    this.#secure.destroy();
  }

  #attempt(outgoing: OutgoingRequest): Promise<IncomingMessage> {
    const { url, method, body, signal } = outgoing;
    const secure = url.protocol === "https:";
    const headers =
      body === null ? outgoing.headers : { ...outgoing.headers, "content-length": Buffer.byteLength(body) };
    return new Promise((resolve, reject) => {
      const send = secure ? httpsRequest : httpRequest;
      const request = send(url, { method, headers, signal, agent: secure ? this.#secure : this.#plain });
      request.on("response", resolve);
      request.on("error", (error: NodeJS.ErrnoException) => {
        reject(request.reusedSocket && error.code === "ECONNRESET" ? new ClosedWhileIdle(error) : error);
      });
      request.end(body ?? undefined);
    });
  }
}

class ClosedWhileIdle extends Error {
  constructor(cause: Error) {
    super("a kept connection was closed", { cause });
  }
}
