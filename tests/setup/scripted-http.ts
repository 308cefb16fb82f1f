/** An HTTP server on 127.0.0.1 that plays one answer after the other and remembers what it was asked. */
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

export interface AskedRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** Answers one request. May leave it open, or destroy its socket. */
export type ScriptedAnswer = (response: ServerResponse, request: AskedRequest) => void | Promise<void>;

export interface ScriptedHttp extends AsyncDisposable {
  readonly url: string;
  /** Every request so far, in order. */
  readonly asked: readonly AskedRequest[];
}

/** Plays `answers` in order; the last one again for everything after it. */
export async function serveHttp(answers: readonly ScriptedAnswer[]): Promise<ScriptedHttp> {
  const asked: AskedRequest[] = [];
  const server = createServer((incoming, response) => {
    readAll(incoming).then(
      async (body) => {
        const request = { method: incoming.method ?? "", url: incoming.url ?? "", headers: incoming.headers, body };
        asked.push(request);
        await answers[Math.min(asked.length, answers.length) - 1]?.(response, request);
      },
      () => response.destroy(),
    );
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  // A listening TCP server answers with an address object.
  const { port } = server.address() as AddressInfo;
  return {
    url: `http://127.0.0.1:${port}`,
    asked,
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
    },
  };
}

export function answerJson(
  status: number,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): ScriptedAnswer {
  return (response) => {
    response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
  };
}

async function readAll(incoming: IncomingMessage): Promise<string> {
  incoming.setEncoding("utf8");
  let body = "";
  for await (const chunk of incoming) body += String(chunk);
  return body;
}
