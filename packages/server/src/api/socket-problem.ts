/** Answers what never became a request: bytes that are not HTTP, headers without an end, a body that does not come. */
import type { Server, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { PlatformError } from "@signalbox/contract";
import { problemOf } from "./problem.ts";

export type SocketError = Error & { readonly code?: string };

/** What is being answered on each socket. */
export class OpenAnswers {
  readonly #answers = new WeakMap<Socket, ServerResponse>();

  watch(server: Server): void {
    server.on("request", (request, response) => {
      this.#answers.set(request.socket, response);
      response.once("close", () => this.#answers.delete(request.socket));
    });
  }

  /** True when an answer has begun, so that anything more would be read as a part of it. */
  begun(socket: Socket): boolean {
    return this.#answers.get(socket)?.headersSent === true;
  }
}

/** Tells the peer what is wrong, where there is a peer and nothing else is being said, and closes. */
export function answerOnSocket(
  error: SocketError,
  socket: Socket,
  answer: { readonly requestId: string; readonly version: string; readonly open: OpenAnswers },
): void {
  if (error.code === "ECONNRESET" || !socket.writable || answer.open.begun(socket)) {
    socket.destroy();
    return;
  }
  const { requestId, version } = answer;
  const problem = problemOf(problemOfSocket(error), { id: requestId, url: "/" });
  const body = JSON.stringify(problem);
  const lines = [
    `HTTP/1.1 ${problem.status} ${problem.status === 413 ? "Content Too Large" : "Bad Request"}`,
    "content-type: application/problem+json; charset=utf-8",
    `content-length: ${Buffer.byteLength(body)}`,
    "connection: close",
    `signalbox-request-id: ${requestId}`,
    `signalbox-version: ${version}`,
    "",
    body,
  ];
  socket.end(lines.join("\r\n"));
}

function problemOfSocket(error: SocketError): PlatformError {
  switch (error.code) {
    case "HPE_HEADER_OVERFLOW":
      return new PlatformError("payload_too_large", "The headers are too large.", { cause: error });
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return new PlatformError("invalid_request", "The request did not come to its end in time.", { cause: error });
    default:
      return new PlatformError("invalid_request", "What was sent is not HTTP/1.1.", { cause: error });
  }
}
