/** The bare writer: keeps every reader's response and writes each frame to all of them, and does nothing else. */
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import { serveOrders } from "../gates/measured-process.ts";

interface Order {
  readonly frames: readonly string[];
  readonly everyMs: number;
}

const readers = new Set<ServerResponse>();
const server = createServer((request, response) => {
  response.writeHead(200, { "content-type": "text/event-stream", "cache-control": "no-cache" });
  response.socket?.setNoDelay(true);
  response.write(": here\n\n");
  readers.add(response);
  request.on("close", () => readers.delete(response));
});
await new Promise<void>((resolve) => {
  server.listen(0, "127.0.0.1", resolve);
});
// A TCP server that listens has an address of this kind.
const { port } = server.address() as AddressInfo;

await serveOrders({ url: `http://127.0.0.1:${port}` }, async (order) => {
  // `bar.ts` sends these and nothing else.
  const { frames, everyMs } = order as unknown as Order;
  const startMs = performance.now();
  for (const [at, frame] of frames.entries()) {
    const waitMs = startMs + at * everyMs - performance.now();
    if (waitMs > 0) await pause(waitMs);
    for (const reader of readers) reader.write(frame);
  }
  return {};
});
server.closeAllConnections();
server.close();
