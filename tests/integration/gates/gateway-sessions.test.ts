/** Sessions that live in no process, servers that lose them, and calls that outlive their time. */
import { signActor } from "@signalbox/client";
import { startSessionServer, type SessionServer } from "@signalbox/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { until } from "../../setup/until.ts";
import { clientOf, type GatewayClient } from "./gateway-clients.ts";
import { LETS_ALL, startGatewayWorld, type GatewayWorld } from "./gateway-fixture.ts";
import { textOf } from "./tool-fixture.ts";

const INITIALIZE = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } };
const era = "handshake";
const CALL_MS = 300;

const stack = new AsyncDisposableStack();
let world: GatewayWorld;
let upstream: SessionServer;
let ana: string;
let ben: string;

beforeAll(async () => {
  upstream = stack.use(await startSessionServer());
  const tools = {
    get: { effect: "read" },
    set: { effect: "write" },
    slow: { effect: "write", timeoutMs: CALL_MS },
    slow_read: { effect: "read", timeoutMs: CALL_MS },
  } as const;
  const server = { transport: "http", url: upstream.url, headers: {}, tools } as const;
  world = stack.use(await startGatewayWorld({ policy: LETS_ALL, servers: { keeper: server }, platformCount: 2 }));
  ana = await world.key();
  ben = await world.key();
}, 60_000);
afterAll(() => stack.disposeAsync());

const addresses = (path: string): readonly string[] => world.platforms.map(({ url }) => `${url}${path}`);
const atServer = (key: string): GatewayClient => clientOf(key, ...addresses("/mcp/servers/keeper"));
const atUnit = (key: string): GatewayClient => clientOf(key, ...addresses("/mcp/units/default"));

/** A client with a session, each of whose requests meets another process than the one before. */
async function begin(client: GatewayClient, headers: Readonly<Record<string, string>> = {}) {
  const greeting = await client.ask("initialize", { era, params: INITIALIZE, headers });
  const id = greeting.headers.get("mcp-session-id") ?? "";
  const mine = { era, headers: { "mcp-session-id": id } } as const;
  await client.ask("notifications/initialized", mine);
  return { id, call: (name: string, input = {}) => client.call(name, input, mine) };
}

describe("a session", () => {
  it("is served by every process, each request over a connection of its own", async () => {
    const session = await begin(atServer(ana));
    expect(textOf(await session.call("set", { value: "mine" }))).toBe("kept");
    for (let at = 0; at < 6; at += 1) expect(textOf(await session.call("get"))).toBe("mine");
  });

  it("goes on when the server has lost it, opened again once for all who find out", async () => {
    const session = await begin(atServer(ana));
    await session.call("set", { value: "before" });
    upstream.forget();
    const opened = upstream.openedCount;
    const answers = await Promise.all(Array.from({ length: 8 }, () => session.call("get")));
    expect(answers.map(textOf)).toEqual(Array.from({ length: 8 }, () => "nothing"));
    // Once in each process.
    expect(upstream.openedCount - opened).toBeLessThanOrEqual(world.platforms.length);
    for (let at = 0; at < 20; at += 1) {
      if (at % 5 === 0) upstream.forget();
      expect(textOf(await session.call("get"))).toBe("nothing");
    }
  });

  it("may be begun again by a client that still shows the old one", async () => {
    const session = await begin(atServer(ana));
    const again = await begin(atServer(ana), { "mcp-session-id": session.id });
    expect(again.id).not.toBe(session.id);
    expect(textOf(await again.call("get"))).toBe("nothing");
  });

  it("is nobody else's: not to use, not to end, not to listen to", async () => {
    const session = await begin(atServer(ana));
    await session.call("set", { value: "secret" });
    const stolen = { "mcp-session-id": session.id };
    const used = await atServer(ben).call("get", {}, { era, headers: stolen });
    expect([used.status, used.message.error?.code]).toEqual([404, -32_001]);
    const [url = ""] = addresses("/mcp/servers/keeper");
    const headers = { authorization: `Bearer ${ben}`, ...stolen };
    expect((await fetch(url, { method: "DELETE", headers })).status).toBe(404);
    expect((await fetch(url, { headers })).status).toBe(404);
    expect((await fetch(url, { method: "DELETE", headers: { ...headers, "mcp-session-id": "made-up" } })).status).toBe(
      404,
    );
    expect(textOf(await session.call("get"))).toBe("secret");
    const own = { authorization: `Bearer ${ana}`, ...stolen };
    expect((await fetch(url, { method: "DELETE", headers: own })).status).toBe(204);
  });
});

describe("what a server keeps for one principal", () => {
  it("is seen by no other: not by another key, not by another user of the same key", async () => {
    const one = atUnit(ana);
    for (const address of [0, 1]) expect(textOf(await one.call("keeper__set", { value: `A${address}` }))).toBe("kept");
    expect(textOf(await one.call("keeper__get"))).toMatch(/^A/);
    expect(textOf(await atUnit(ben).call("keeper__get"))).toBe("nothing");
    const shared = await world.key({ rights: ["tools", "assert_actor"] });
    const as = async (user: string) => ({ "signalbox-actor": await signActor(shared, { user, roles: [], units: [] }) });
    const [address = ""] = addresses("/mcp/units/default");
    const client = clientOf(shared, address);
    await client.call("keeper__set", { value: "u1" }, { headers: await as("u1") });
    expect(textOf(await client.call("keeper__get", {}, { headers: await as("u2") }))).toBe("nothing");
    expect(textOf(await client.call("keeper__get", {}, { headers: await as("u1") }))).toBe("u1");
  });

  it("goes on when another one cancels", async () => {
    const [address = ""] = addresses("/mcp/units/default");
    const leaving = new AbortController();
    const before = upstream.calls.length;
    const cancelled = clientOf(ana, address).call("keeper__slow_read", {}, { signal: leaving.signal });
    const going = clientOf(ben, address).call("keeper__slow_read");
    await upstream.waitFor(() => upstream.calls.slice(before).filter((name) => name === "slow_read").length === 2);
    leaving.abort();
    await cancelled.catch(() => undefined);
    upstream.release();
    expect(textOf(await going)).toBe("late");
  });
});

describe("a call that takes longer than its time", () => {
  it.each([
    ["at the address of one server", async () => (await begin(atServer(ana))).call("slow")],
    ["at the address of all", async () => atUnit(ana).call("keeper__slow", {}, { era })],
  ])("%s ends when declared, is told to stop, and what came of it is kept", async (_, call) => {
    const before = upstream.cancelled.length;
    const startedAtMs = performance.now();
    const answer = await call();
    expect(performance.now() - startedAtMs).toBeLessThan(CALL_MS + 2_500);
    expect(answer.message.result).toMatchObject({ isError: true });
    expect(textOf(answer)).toMatch(/did not answer in time.*may have taken effect/);
    await upstream.waitFor(() => upstream.cancelled.length > before);
    const [call_] = await world.rows(
      "select id, state, error_code, late_result from signalbox.gateway_call order by id desc limit 1",
    );
    expect(call_).toMatchObject({ state: "unknown", error_code: "tool_timeout", late_result: null });
    upstream.release();
    const late = await until("the late result", async () => {
      const [row] = await world.rows("select state, late_result from signalbox.gateway_call where id = $1", [
        call_?.id,
      ]);
      return row?.late_result === null ? null : row;
    });
    expect(late.state).toBe("unknown");
    expect(late.late_result).toContain("late");
    const [audited] = await world.rows(
      `select convert_from(bytes, 'UTF8') as entry from signalbox.audit_pending order by id desc limit 1`,
    );
    expect(audited?.entry).toContain('"late":true');
  });
});
