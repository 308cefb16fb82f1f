import { createServer } from "node:http2";
import type { AddressInfo } from "node:net";
import { CODE_HEADER } from "@signalbox/contract";
import { RegistryService } from "@signalbox/contract/worker-protocol";
import { Code, ConnectError, createClient } from "@connectrpc/connect";
import { connectNodeAdapter, createConnectTransport } from "@connectrpc/connect-node";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { JOIN_TOKEN, PATIENTLY, WorkersWorld } from "../../../../tests/setup/scripted-worker.ts";
import { registryRoutes } from "./registry-service.ts";

let world: WorkersWorld;

beforeEach(async () => {
  world = await WorkersWorld.open();
});

afterEach(async () => {
  await world[Symbol.asyncDispose]();
});

describe("registering", () => {
  async function registry() {
    const server = createServer(
      connectNodeAdapter({
        routes: registryRoutes({ joinToken: JOIN_TOKEN, leaseMs: 10_000, workers: world.workers }),
      }),
    );
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    world.use({ [Symbol.asyncDispose]: () => new Promise<void>((resolve) => server.close(() => resolve())) });
    const baseUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    return createClient(
      RegistryService,
      createConnectTransport({ baseUrl, httpVersion: "2", idleConnectionTimeoutMs: 50 }),
    );
  }

  it("with the join token makes the platform dial, with the same token", async () => {
    const client = await registry();
    const { address, incarnation, runtimes } = world.worker;
    const headers = { authorization: `Bearer ${JOIN_TOKEN}` };
    const told = await client.register({ address, incarnation, room: 4, runtimes }, { headers });
    expect(told.leaseMs).toBe(10_000);
    await expect.poll(() => world.room, PATIENTLY).toBe(4);
    expect([...world.worker.tokens]).toEqual([`Bearer ${JOIN_TOKEN}`]);
  });

  it.each(["Bearer another", "Bearer ", JOIN_TOKEN, "", `bearer ${JOIN_TOKEN}`])(
    "with the token %j is refused, and nobody is dialled",
    async (authorization) => {
      const client = await registry();
      const { address, incarnation, runtimes } = world.worker;
      const refused = client.register({ address, incarnation, room: 4, runtimes }, { headers: { authorization } });
      await expect(refused).rejects.toMatchObject({ code: Code.Unauthenticated });
      await refused.catch((thrown: unknown) => {
        expect(ConnectError.from(thrown).metadata.get(CODE_HEADER)).toBe("unauthenticated");
      });
      expect(world.worker.beatCount).toBe(0);
    },
  );

  it.each([
    ["ftp://127.0.0.1:1", "w1"],
    ["127.0.0.1:4711", "w1"],
    ["http://127.0.0.1:4711/path", "w1"],
    ["http://user@127.0.0.1:4711", "w1"],
    ["http://127.0.0.1:4711?x", "w1"],
    ["", "w1"],
    ["http://127.0.0.1:4711", ""],
  ])("as %j, %j is refused", async (address, incarnation) => {
    const client = await registry();
    const headers = { authorization: `Bearer ${JOIN_TOKEN}` };
    const refused = client.register({ address, incarnation, room: 4, runtimes: [] }, { headers });
    await expect(refused).rejects.toMatchObject({ code: Code.InvalidArgument });
  });
});
