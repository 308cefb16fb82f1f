/** The worker's socket: gRPC and Connect over HTTP/2 without TLS. */
import { createServer } from "node:http2";
import { connectNodeAdapter } from "@connectrpc/connect-node";
/** Sockets that have not closed by themselves after this are cut. */
const CLOSE_BOUND_MS = 500;
const STREAMS_PER_CONNECTION_MAX = 1_000;
export async function listen(options) {
    const connections = new Set();
    // Compression costs more than it saves on small messages between neighbours.
    const handler = connectNodeAdapter({ routes: options.routes, acceptCompression: [] });
    const server = createServer({ settings: { maxConcurrentStreams: STREAMS_PER_CONNECTION_MAX } }, handler);
    server.on("session", (connection) => {
        connections.add(connection);
        connection.once("close", () => connections.delete(connection));
    });
    await new Promise((resolve, reject) => {
        server.once("error", reject);
        server.listen(options.port, options.host, () => {
            server.off("error", reject);
            resolve();
        });
    });
    // A listening TCP server answers with an address object.
    const { port } = server.address();
    const host = options.host.includes(":") ? `[${options.host}]` : options.host;
    return {
        address: `http://${host}:${port}`,
        [Symbol.asyncDispose]: () => close(server, connections),
    };
}
async function close(server, connections) {
    const closed = new Promise((resolve) => server.close(() => resolve()));
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
//# sourceMappingURL=listener.js.map