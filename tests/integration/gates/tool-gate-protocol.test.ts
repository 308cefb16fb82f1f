/** MCP as the tool gate speaks it, in both eras, to clients that are right and to clients that are wrong. */
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as OlderClient } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as OlderTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { startMcpServer } from "@signalbox/testkit";
import { describe, expect, it } from "vitest";
import { StreamReader } from "./gate-fixture.ts";
import { callTool, MODERN, post, propose, rpc, startToolFixture, textOf, type ToolFixture } from "./tool-fixture.ts";
import { TOKEN } from "./watched-record.ts";

async function withGate(test: (fixture: ToolFixture) => Promise<void>): Promise<void> {
  await using neighbour = await startMcpServer({
    tools: {
      write: {
        title: "Write a file",
        inputSchema: { type: "object", properties: { path: { type: "string" } } },
        result: "written",
      },
      read: {
        inputSchema: { type: "object", properties: { path: { type: "string" } } },
        handler: (input) => `read ${String(input.path)}`,
      },
      secret: { result: "not for this agent" },
    },
  });
  const servers = {
    docs: { transport: "http", url: neighbour.url, headers: {}, tools: { read: { effect: "read" } } },
  } as const;
  await using fixture = await startToolFixture({
    servers,
    tools: (listed) => listed.filter((tool) => tool.tool !== "secret"),
  });
  await test(fixture);
}

const serverInfo = { name: "signalbox", title: "Signalbox", version: "0.1.0" };

describe("the era without a handshake", () => {
  it("is discovered", () =>
    withGate(async ({ url }) => {
      const { status, message } = await rpc(url, "server/discover");
      expect(status).toBe(200);
      expect(message.result).toEqual({
        supportedVersions: [MODERN, "2025-11-25", "2025-06-18", "2025-03-26"],
        capabilities: { tools: {} },
        resultType: "complete",
        ttlMs: 0,
        cacheScope: "private",
        _meta: { "io.modelcontextprotocol/serverInfo": serverInfo },
      });
    }));

  it("lists the snapshot's tools, in its order, as they were pinned, and no others", () =>
    withGate(async ({ url }) => {
      const { message, body } = await rpc(url, "tools/list");
      expect(message.result).toMatchObject({ resultType: "complete", ttlMs: 0, cacheScope: "private" });
      expect(message.result!.tools).toEqual([
        {
          name: "docs__read",
          title: "read",
          description: "read",
          inputSchema: { type: "object", properties: { path: { type: "string" } } },
        },
        {
          name: "docs__write",
          title: "Write a file",
          description: "write",
          inputSchema: { type: "object", properties: { path: { type: "string" } } },
        },
      ]);
      expect((await rpc(url, "tools/list")).body).toBe(body);
    }));

  it("has streams to listen on that are acknowledged and say nothing", () =>
    withGate(async (fixture) => {
      const response = await post(fixture.url, "subscriptions/listen", {
        id: "listen:0",
        params: { notifications: { toolsListChanged: true } },
      });
      expect(response.headers.get("content-type")).toBe("text/event-stream");
      const reader = new StreamReader(response);
      const seen = await reader.until("\n\n");
      expect(JSON.parse(seen.split("data: ")[1]!)).toEqual({
        jsonrpc: "2.0",
        method: "notifications/subscriptions/acknowledged",
        params: { notifications: {}, _meta: { "io.modelcontextprotocol/subscriptionId": "listen:0" } },
      });
      await fixture.gate[Symbol.asyncDispose]();
      expect(await reader.toEnd()).toBe(seen);
    }));

  it("refuses what its headers contradict, and what it does not know", () =>
    withGate(async ({ url }) => {
      const params = { name: "docs__read", arguments: {} };
      const wrongName = await rpc(url, "tools/call", { params, headers: { "mcp-name": "docs__write" } });
      expect([wrongName.status, wrongName.message.error!.code]).toEqual([400, -32_020]);
      const wrongMethod = await rpc(url, "tools/list", { headers: { "mcp-method": "tools/call" } });
      expect([wrongMethod.status, wrongMethod.message.error!.code]).toEqual([400, -32_020]);
      const encoded = await rpc(url, "tools/call", {
        params,
        headers: { "mcp-name": `=?base64?${btoa("docs__read")}?=` },
      });
      expect(encoded.status).toBe(200);
      const future = await rpc(url, "tools/list", {
        headers: { "mcp-protocol-version": "2099-01-01" },
        era: "handshake",
        meta: { "io.modelcontextprotocol/protocolVersion": "2099-01-01" },
      });
      expect([future.status, future.message.error]).toMatchObject([
        400,
        { code: -32_022, data: { requested: "2099-01-01" } },
      ]);
      const unknown = await rpc(url, "resources/list");
      expect([unknown.status, unknown.message]).toMatchObject([404, { id: 1, error: { code: -32_601 } }]);
    }));
});

describe("the era with a handshake", () => {
  const era = "handshake";

  it("is greeted, noted and answered without a session", () =>
    withGate(async ({ url }) => {
      const greeting = await rpc(url, "initialize", {
        era,
        params: { protocolVersion: "2025-06-18", capabilities: {} },
      });
      expect(greeting.message.result).toEqual({
        protocolVersion: "2025-06-18",
        capabilities: { tools: {} },
        serverInfo,
      });
      expect(greeting.headers.get("mcp-session-id")).toBeNull();
      const older = await rpc(url, "initialize", { era, params: { protocolVersion: "2024-11-05" } });
      expect(older.message.result).toMatchObject({ protocolVersion: "2025-11-25" });
      expect((await rpc(url, "ping", { era })).message.result).toEqual({});
      const noted = await fetch(url, {
        method: "POST",
        headers: {
          authorization: `Bearer ${TOKEN}`,
          "content-type": "application/json",
          "mcp-protocol-version": "2025-11-25",
        },
        body: '{"jsonrpc":"2.0","method":"notifications/initialized"}',
      });
      expect([noted.status, await noted.text()]).toEqual([202, ""]);
      const listed = await rpc(url, "tools/list", { era });
      expect(Object.keys(listed.message.result!)).toEqual(["tools"]);
      const unknown = await rpc(url, "prompts/list", { era });
      expect([unknown.status, unknown.message.error!.code]).toEqual([200, -32_601]);
    }));

  it("opens no stream and ends no session", () =>
    withGate(async ({ url }) => {
      for (const method of ["GET", "DELETE"]) {
        const response = await fetch(url, { method, headers: { authorization: `Bearer ${TOKEN}` } });
        expect([response.status, response.headers.get("allow")]).toEqual([405, "POST"]);
        await response.text();
      }
    }));
});

describe("a request that is none", () => {
  const send = (url: string, body: string | Uint8Array<ArrayBuffer>) =>
    fetch(url, {
      method: "POST",
      headers: { authorization: `Bearer ${TOKEN}`, "content-type": "application/json" },
      body,
    });

  it.each([
    ["no JSON", "{", 400, -32_700],
    ["a batch", '[{"jsonrpc":"2.0","id":1,"method":"ping"}]', 400, -32_600],
    ["another JSON-RPC", '{"jsonrpc":"1.0","id":1,"method":"ping"}', 400, -32_600],
    ["no method", '{"jsonrpc":"2.0","id":1}', 400, -32_600],
    ["an id of another kind", '{"jsonrpc":"2.0","id":{},"method":"ping"}', 400, -32_600],
    ["params of another kind", '{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', 400, -32_602],
  ])("%s", async (_name, body, ...expected) =>
    withGate(async ({ url }) => {
      const response = await send(url, body);
      const { error } = (await response.json()) as { readonly error: { readonly code: number } };
      expect([response.status, error.code]).toEqual(expected);
    }),
  );

  it("says so with a code of ours when it is about the request's bytes or its sender", () =>
    withGate(async (fixture) => {
      const bad = await send(fixture.url, new Uint8Array([0xff]));
      expect([bad.status, bad.headers.get("signalbox-code")]).toEqual([400, "invalid_encoding"]);
      await bad.text();
      const large = await send(fixture.url, " ".repeat(5 * 1024 * 1024));
      expect([large.status, large.headers.get("signalbox-code")]).toEqual([413, "payload_too_large"]);
      await large.text();
      const nobody = await rpc(fixture.url, "tools/list", { headers: { authorization: "" } });
      expect([nobody.status, nobody.message.error!.data]).toEqual([401, { code: "unauthenticated" }]);
      const stranger = await rpc(fixture.url, "tools/list", { headers: { authorization: "Bearer x" } });
      expect([stranger.status, stranger.message]).toMatchObject([
        410,
        { id: 1, error: { code: 410, data: { code: "slot_unknown" } } },
      ]);
      const elsewhere = await rpc(`${fixture.server.url}/mcp/units/other`, "tools/list");
      expect([elsewhere.status, elsewhere.message.error!.data]).toEqual([404, { code: "not_found" }]);
    }));

  it("lists for a slot between two steps, but calls nothing", () =>
    withGate(async ({ url, record }) => {
      record.unbind();
      expect((await rpc(url, "tools/list")).status).toBe(200);
      const call = await callTool(url, { id: "toolu_1", name: "docs__read", input: {} });
      expect([call.status, call.message.error!.data]).toEqual([410, { code: "slot_unknown" }]);
    }));
});

describe("clients of the protocol's own makers", () => {
  const call = { id: "toolu_1", name: "docs__read", input: { path: "a.md" } };
  const requestInit = { headers: { authorization: `Bearer ${TOKEN}` } };

  it.each(["modern", "legacy"] as const)("of today, %s", async (era) =>
    withGate(async ({ url, record }) => {
      await propose(record, call);
      const client = new Client(
        { name: "test", version: "1" },
        { versionNegotiation: { mode: era === "modern" ? "auto" : "legacy" } },
      );
      await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
      const { tools } = await client.listTools();
      expect(tools.map((tool) => tool.name)).toEqual(["docs__read", "docs__write"]);
      const result = await client.callTool({
        name: call.name,
        arguments: call.input,
        _meta: { "claudecode/toolUseId": call.id },
      });
      expect(result.content).toEqual([{ type: "text", text: "read a.md" }]);
      await client.close();
    }),
  );

  it("of yesterday", () =>
    withGate(async ({ url, record }) => {
      await propose(record, call);
      const client = new OlderClient({ name: "test", version: "1" });
      await client.connect(new OlderTransport(new URL(url), { requestInit }));
      expect((await client.listTools()).tools).toHaveLength(2);
      const result = await client.callTool({ name: call.name, arguments: call.input });
      expect(result.content).toEqual([{ type: "text", text: "read a.md" }]);
      await client.close();
    }));

  it("read a refusal as the tool's own error", () =>
    withGate(async ({ url }) => {
      const answer = await callTool(url, call);
      expect(answer.message.result).toMatchObject({ isError: true, resultType: "complete" });
      expect(textOf(answer)).toBe("Refused (tool_not_proposed): The model did not propose this call.");
    }));
});
