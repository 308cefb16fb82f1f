/** A handler of web requests as a server on 127.0.0.1, with answers that may stream. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A server that listens on this machine only. Disposing of it closes it. */
export interface LocalServer extends AsyncDisposable {
  /** The endpoint, with its path. */
  readonly url: string;
  readonly port: number;
  close(): Promise<void>;
}

const PATH = "/mcp";

export async function listenLocally(
  port: number,
  handle: (request: Request) => Promise<Response>,
): Promise<LocalServer> {
  const working = new Set<Promise<void>>();
  const server = createServer((incoming, response) => {
    const work = serve({ incoming, response }, handle)
      .catch(() => {
        response.destroy();
      })
      .finally(() => working.delete(work));
    working.add(work);
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  // A TCP server that listens has an address of this kind.
  const address = server.address() as AddressInfo;
  const close = async (): Promise<void> => {
    const closed = server.listening ? once(server, "close") : null;
    server.close();
    server.closeAllConnections();
    await closed;
    await Promise.all(working);
  };
  return { url: `http://127.0.0.1:${address.port}${PATH}`, port: address.port, close, [Symbol.asyncDispose]: close };
}

interface Pair {
  readonly incoming: IncomingMessage;
  readonly response: ServerResponse;
}

async function serve({ incoming, response }: Pair, handle: (request: Request) => Promise<Response>): Promise<void> {
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  const chunks: Buffer[] = [];
  // Without an encoding set, what a request yields are buffers.
  for await (const chunk of incoming as AsyncIterable<Buffer>) chunks.push(chunk);
  const headers = Object.entries(incoming.headers).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, Array.isArray(value) ? value.join(", ") : value]],
  );
  const body = Buffer.concat(chunks);
  const answer = await handle(
    new Request(`http://127.0.0.1${incoming.url ?? PATH}`, {
      method: incoming.method ?? "GET",
      headers,
      signal: gone.signal,
      ...(body.length > 0 ? { body } : {}),
    }),
  );
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  if (answer.body === null) {
    response.end();
    return;
  }
  response.flushHeaders();
  for await (const chunk of answer.body) {
    if (response.destroyed) break;
    response.write(chunk);
  }
  response.end();
}
