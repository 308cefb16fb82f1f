/** The worker's socket: gRPC and Connect over HTTP/2 without TLS. */
import { createServer, type ServerHttp2Session } from "node:http2";
import type { AddressInfo } from "node:net";
import type { ConnectRouter } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";

/** Sockets that have not closed by themselves after this are cut. */
const CLOSE_BOUND_MS = 500;
const STREAMS_PER_CONNECTION_MAX = 1_000;

export interface Listener extends AsyncDisposable {
  readonly address: string;
}

export interface ListenOptions {
  readonly routes: (router: ConnectRouter) => void;
  readonly host: string;
  readonly port: number;
}

export async function listen(options: ListenOptions): Promise<Listener> {
  const connections = new Set<ServerHttp2Session>();
  // Compression costs more than it saves on small messages between neighbours.
  const handler = connectNodeAdapter({ routes: options.routes, acceptCompression: [] });
  const server = createServer({ settings: { maxConcurrentStreams: STREAMS_PER_CONNECTION_MAX } }, handler);
  server.on("session", (connection) => {
    connections.add(connection);
    connection.once("close", () => connections.delete(connection));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port, options.host, () => {
      server.off("error", reject);
      resolve();
    });
  });
  // A listening TCP server answers with an address object.
  const { port } = server.address() as AddressInfo;
  const host = options.host.includes(":") ? `[${options.host}]` : options.host;
  return {
    address: `http://${host}:${port}`,
    [Symbol.asyncDispose]: () => close(server, connections),
  };
}

async function close(
  server: ReturnType<typeof createServer>,
  connections: ReadonlySet<ServerHttp2Session>,
): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  for (const connection of connections) {
    connection.close();
  }
  const cut = setTimeout(() => {
    for (const connection of connections) {
      connection.destroy();
    }
  }, CLOSE_BOUND_MS);
  await closed;
  clearTimeout(cut);
}
