/** The gates' address: who answers which path, and how it closes. */
import { expect, it } from "vitest";
import { createGateServer, type Gate } from "../../../packages/server/src/gates/gate-server.ts";
import { systemClock } from "../../../packages/server/src/system/ports.ts";

const empty: Gate = { handle: (_request, response) => response.writeHead(204).end() };

function serve(gate: Gate, port = 0) {
  const address = { host: "127.0.0.1", port, clock: systemClock };
  return createGateServer({ modelGate: gate, toolGate: gate, connectRoutes: [], messageBytesMax: 1_000, ...address });
}

it("answers what it does not know with 404, and closes in order", async () => {
  const server = await serve(empty);
  const paths = ["/", "/signalbox.worker.v1.RecordService/Append", "/model/x", "/mcp/x", "/healthz"];
  const statuses = await Promise.all(
    paths.map(async (path) => {
      const response = await fetch(`${server.url}${path}`);
      await response.text();
      return response.status;
    }),
  );
  expect(statuses).toEqual([404, 404, 204, 204, 200]);
  await server.close({ graceMs: 1_000 });
  await server.close({ graceMs: 1_000 });
  await expect(fetch(`${server.url}/healthz`)).rejects.toThrow("fetch failed");
});

it("lets open requests end within the grace, and cuts what stays", async () => {
  const ends: (() => void)[] = [];
  const begins: Gate = {
    handle: (request, response) => {
      response.writeHead(200);
      response.write("begun");
      if (request.url === "/model/ends") ends.push(() => response.end(" and ended"));
    },
  };
  const server = await serve(begins);
  const ending = await fetch(`${server.url}/model/ends`);
  const staying = await fetch(`${server.url}/model/stays`);
  const closing = server.close({ graceMs: 300 });
  for (const end of ends) end();
  expect(await ending.text()).toBe("begun and ended");
  await expect(staying.text()).rejects.toThrow("terminated");
  await closing;
});

it("says when its port is taken", async () => {
  await using first = await serve(empty);
  await expect(serve(empty, first.port)).rejects.toMatchObject({ code: "EADDRINUSE" });
});
