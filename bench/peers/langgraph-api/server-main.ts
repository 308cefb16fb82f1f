/** The peer as a process of its own, at its best setting: no reloading, no tracing, a worker for every run at once. */
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { serveOrders } from "../../gates/measured-process.ts";

/** As far as we use it: the package is here only once the bench has installed it. */
interface Peer {
  readonly startServer: (options: {
    readonly port: number;
    readonly nWorkers: number;
    readonly host: string;
    readonly cwd: string;
    readonly graphs: Readonly<Record<string, string>>;
  }) => Promise<unknown>;
}

const PACKAGE = "@langchain/langgraph-api/server";
// What it does not hold the bench would notice at once.
const { startServer } = (await import(PACKAGE)) as Peer;

const folder = mkdtempSync(join(tmpdir(), "sbx-bench-peer-"));
const port = await freePort();
await startServer({
  port,
  nWorkers: Number(process.env.PEER_WORKERS),
  host: "127.0.0.1",
  cwd: folder,
  graphs: { chat: `${fileURLToPath(new URL("./chat-graph.ts", import.meta.url))}:graph` },
});
await serveOrders({ url: `http://127.0.0.1:${port}` }, () => Promise.reject(new Error("the peer takes no orders")));
rmSync(folder, { recursive: true, force: true });
process.exit(0);

/** The peer cannot be asked which port it took. */
async function freePort(): Promise<number> {
  const probe = createServer();
  await new Promise<void>((resolve) => {
    probe.listen(0, "127.0.0.1", resolve);
  });
  // A listening TCP server has an address of this kind.
  const { port: free } = probe.address() as AddressInfo;
  await new Promise((resolve) => probe.close(resolve));
  return free;
}
