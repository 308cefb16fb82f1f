/** Who may use the gateway, what it refuses to read, and what of a client never leaves it. */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { startMcpServer, startSessionServer, type SessionServer } from "@signalbox/testkit";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { clientOf, type GatewayClient } from "./gateway-clients.ts";
import { LETS_ALL, startGatewayWorld, type GatewayWorld } from "./gateway-fixture.ts";
import { textOf } from "./tool-fixture.ts";

const stack = new AsyncDisposableStack();
let world: GatewayWorld;
let key: string;
let docs: string;
let client: GatewayClient;
let older: SessionServer;

beforeAll(async () => {
  const tools = {
    read: { result: "read", inputSchema: { type: "object", properties: { path: { type: "string" } } } },
    unsaid: { result: "never" },
    leaky: { breaks: "cannot reach http://127.0.0.1:1/mcp with the operator's secret" },
  };
  const server = stack.use(await startMcpServer({ tools, token: "the operator's secret" }));
  older = stack.use(await startSessionServer());
  const headers = { authorization: "Bearer the operator's secret" };
  world = stack.use(
    await startGatewayWorld({
      policy: LETS_ALL,
      servers: {
        docs: {
          transport: "http",
          url: server.url,
          headers,
          tools: { read: { effect: "read" }, leaky: { effect: "read" } },
        },
        old: { transport: "http", url: older.url, headers: {}, tools: {}, clients: "all" },
        hidden: { transport: "http", url: server.url, headers, tools: { read: { effect: "read" } }, clients: "none" },
      },
    }),
  );
  key = await world.key();
  docs = `${world.url}/mcp/servers/docs`;
  client = clientOf(key, docs);
}, 60_000);
afterAll(() => stack.disposeAsync());

describe("the gateway", () => {
  it("is for keys with the right to use tools", async () => {
    const nobody = await clientOf("sbx_nobody_nobody_nobody_nobody", docs).ask("tools/list");
    expect([nobody.status, nobody.headers.get("www-authenticate")]).toEqual([401, 'Bearer realm="signalbox"']);
    const reader = await clientOf(await world.key({ rights: ["read", "write"] }), docs).ask("tools/list");
    expect([reader.status, reader.message.error?.data]).toMatchObject([403, { code: "permission_denied" }]);
    expect((await client.ask("tools/list")).status).toBe(200);
  });

  it("shows tools that somebody has classified, under their own names, and no others", async () => {
    const { tools } = (await client.ask("tools/list")).message.result as { tools: { name: string }[] };
    expect(tools.map(({ name }) => name).toSorted()).toEqual(["leaky", "read"]);
    const refused = await client.call("unsaid");
    const missing = await client.call("no_such_tool");
    expect(refused.message.error?.code).toBe(-32_602);
    expect(refused.message.error?.message.replace("unsaid", "no_such_tool")).toBe(missing.message.error?.message);
    const hidden = await clientOf(key, `${world.url}/mcp/servers/hidden`).ask("tools/list");
    const none = await clientOf(key, `${world.url}/mcp/servers/none`).ask("tools/list");
    expect([hidden.status, hidden.body]).toEqual([none.status, none.body]);
    expect(none.status).toBe(404);
  });

  it("records a call with its principal before it leaves, and what came of it", async () => {
    expect(textOf(await client.call("read", { path: "a" }))).toBe("read");
    const [call] = await world.rows(
      "select * from signalbox.gateway_call where tool = 'read' order by id desc limit 1",
    );
    expect(call).toMatchObject({
      tenant_id: "default",
      endpoint: "servers/docs",
      server: "docs",
      effect: "read",
      state: "succeeded",
      arguments: '{"path":"a"}',
      result_summary: "read",
    });
    expect(JSON.parse(String(call?.actor))).toMatchObject({ user: null });
  });

  it("refuses arguments that the tool does not take, and records that too", async () => {
    const refused = await client.call("read", { path: 7 });
    expect(refused.message.result).toMatchObject({ isError: true });
    const [call] = await world.rows("select state, error_code from signalbox.gateway_call order by id desc limit 1");
    expect(call).toEqual({ state: "denied", error_code: "tool_arguments_invalid" });
  });

  it("lets nothing of the client through to a server", async () => {
    const session = clientOf(key, `${world.url}/mcp/servers/old`);
    const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "t", version: "1" } };
    const greeting = await session.ask("initialize", {
      era: "handshake",
      params,
      headers: { cookie: "session=mine", "x-api-key": "mine too", "signalbox-actor": "" },
    });
    expect(greeting.status).toBe(401);
    const again = await session.ask("initialize", { era: "handshake", params, headers: { cookie: "session=mine" } });
    const mine = { "mcp-session-id": again.headers.get("mcp-session-id") ?? "" };
    await session.call("get", {}, { era: "handshake", headers: mine });
    await clientOf(key, `${world.url}/mcp/units/default`).call("old__get", {}, { headers: { cookie: "session=mine" } });
    const seen = [...older.headers].map(([name, values]) => `${name}: ${[...values].join(" | ")}`).join("\n");
    expect(seen).toMatch(/mcp-session-id/);
    expect(seen).not.toContain(key);
    expect(seen).not.toContain("mine");
    expect(seen).not.toContain(mine["mcp-session-id"]);
    expect(older.headers.has("authorization")).toBe(false);
  });

  it("says nothing of where a server stands or what opens it", async () => {
    const { body } = await client.call("leaky");
    expect(body).not.toContain("the operator's secret");
  });

  it.each([
    ["a header that differs from the body", { headers: { "mcp-name": "unsaid" } }],
    ["a method that differs from the body", { headers: { "mcp-method": "tools/list" } }],
  ])("refuses %s", async (_, options) => {
    const refused = await client.call("read", {}, options);
    expect([refused.status, refused.message.error?.code]).toEqual([400, -32_020]);
  });

  it.each([
    ["the same key twice", `{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}`, [400, -32_600]],
    [
      "nesting without end",
      `{"jsonrpc":"2.0","id":1,"method":"ping","params":${'{"a":'.repeat(70)}1${"}".repeat(70)}}`,
      [400, -32_600],
    ],
    ["several messages at once", `[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, [400, -32_600]],
    ["half a message", `{"jsonrpc":"2.0"`, [400, -32_700]],
    [
      "more than it reads",
      `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"${"x".repeat(4 * 1024 * 1024)}"}}`,
      [413, 413],
    ],
  ])("refuses %s", async (_, body, expected) => {
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const response = await fetch(docs, { method: "POST", headers, body });
    // Every refusal of the gateway has this shape.
    const answer = (await response.json()) as { readonly error: { readonly code: number } };
    expect([response.status, answer.error.code]).toEqual(expected);
  });

  it("is not asked by pages of other origins, in other forms, or by other methods", async () => {
    const page = await client.ask("tools/list", { headers: { origin: "http://evil.example.com" } });
    expect(page.status).toBe(403);
    const form = await client.ask("tools/list", { headers: { "content-type": "text/plain" } });
    expect(form.status).toBe(415);
    const headers = { authorization: `Bearer ${key}` };
    expect((await fetch(docs, { headers })).status).toBe(405);
    expect((await fetch(docs, { method: "PUT", headers })).status).toBe(405);
  });

  it("refuses calls while an operator has stopped or paused the tenant", async () => {
    await world.rows(
      `insert into signalbox.stop (id, tenant_id, kind, scope, subject, created_by)
       values ('stp_1', 'default', 'pause', 'tenant', 'default', '{}')`,
    );
    const refused = await client.call("read");
    expect(textOf(refused)).toMatch(/operator_stopped/);
    await world.rows("update signalbox.stop set lifted_at = now(), lifted_by = '{}'");
    expect(textOf(await client.call("read"))).toBe("read");
  });
});

describe("a server that wants a token of ours", () => {
  it("gets one by client credentials, one more when it refuses, and is asked once more", async () => {
    const asked: string[] = [];
    let current = 0;
    const issuer = createServer((request, response) => {
      request.on("data", (chunk: Buffer) => asked.push(chunk.toString("utf8")));
      request.on("end", () => {
        current += 1;
        response.setHeader("content-type", "application/json");
        response.end(JSON.stringify({ access_token: `token-${current}`, expires_in: 3_600 }));
      });
    });
    await new Promise<void>((resolve) => {
      issuer.listen(0, "127.0.0.1", resolve);
    });
    stack.defer(() => {
      issuer.closeAllConnections();
      issuer.close();
    });
    const { port } = issuer.address() as AddressInfo;
    let taken = "token-1";
    await using guarded = await startSessionServer({ takesToken: (token) => token === taken });
    const oauth = {
      tokenUrl: `http://127.0.0.1:${port}/token`,
      clientId: "us",
      clientSecret: "our secret",
      scope: "tools",
    };
    await using other = await startGatewayWorld({
      policy: LETS_ALL,
      servers: { guarded: { transport: "http", url: guarded.url, headers: {}, oauth, tools: {}, clients: "all" } },
    });
    const mine = await other.key();
    const asking = clientOf(mine, `${other.url}/mcp/units/default`);
    expect(textOf(await asking.call("guarded__get"))).toBe("nothing");
    taken = "token-never";
    const before = asked.length;
    const refused = await asking.call("guarded__get");
    expect(refused.message.result).toMatchObject({ isError: true });
    expect(asked.length - before).toBe(1);
    taken = `token-${current}`;
    expect(textOf(await asking.call("guarded__get"))).toBe("nothing");
    expect(asked[0]).toContain("grant_type=client_credentials");
    expect([...(guarded.headers.get("authorization") ?? [])].join()).not.toContain(mine);
  });
});
