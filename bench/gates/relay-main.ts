/** A relay that does nothing but relay: what any gateway on this machine costs before it has judged or recorded. */
import { Agent, createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { serveOrders } from "./measured-process.ts";

const upstream = new URL(process.env.BENCH_UPSTREAM_URL ?? "");
const agent = new Agent({ keepAlive: true });
const server = createServer((incoming, response) => {
  const chunks: Buffer[] = [];
  incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
  incoming.on("end", () => {
    const { authorization: _, host: __, connection: ___, ...headers } = incoming.headers;
    const forwarded = request(upstream, { method: "POST", agent, headers }, (answer) => {
      response.writeHead(answer.statusCode ?? 502, { "content-type": answer.headers["content-type"] ?? "" });
      answer.pipe(response);
    });
    forwarded.on("error", () => response.destroy());
    forwarded.end(Buffer.concat(chunks));
  });
});
await new Promise<void>((resolve) => {
  server.listen(0, "127.0.0.1", resolve);
});
// A TCP server that listens has an address of this kind.
const { port } = server.address() as AddressInfo;
await serveOrders({ url: `http://127.0.0.1:${port}` }, () => Promise.reject(new Error("a relay takes no orders")));
agent.destroy();
server.closeAllConnections();
server.close();
