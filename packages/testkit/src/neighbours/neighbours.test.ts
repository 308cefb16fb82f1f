/** The scripted tool servers, called by the official client in both revisions of the protocol. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { afterEach, describe, expect, test } from "vitest";
import { readCallFile } from "./call-file.ts";
import { type McpNeighbour, type McpServerOptions, startMcpServer } from "./mcp-server.ts";
import { presetTools } from "./preset-tools.ts";
import { stdioServerCommand } from "./stdio-command.ts";

/** A tool server of its own starts in a second on a quiet machine. */
const TEST_MS = 30_000;

const closers: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0).toReversed()) {
    await close();
  }
});

type Era = "legacy" | "auto";

async function open(options: McpServerOptions): Promise<McpNeighbour> {
  const server = await startMcpServer(options);
  closers.push(() => server.close());
  return server;
}

async function connect(
  server: McpNeighbour,
  { era = "auto", token }: { era?: Era; token?: string } = {},
): Promise<Client> {
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode: era } });
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  await client.connect(new StreamableHTTPClientTransport(new URL(server.url), { requestInit: { headers } }));
  closers.push(() => client.close());
  return client;
}

function textOf(result: { content?: unknown }): string {
  return (result.content as readonly { text: string }[]).map((block) => block.text).join("");
}

describe.each(["legacy", "auto"] as const)("over HTTP, %s", (era) => {
  test("tools are listed as written and called; every call is recorded", async () => {
    const schema = { type: "object", properties: { a: { type: "number" } }, required: ["a"] };
    const server = await open({
      tools: {
        add: {
          description: "adds",
          inputSchema: schema,
          annotations: { readOnlyHint: true },
          handler: ({ a }) => String(Number(a) + 1),
        },
        plain: { result: { content: [{ type: "text", text: "whole" }], structuredContent: { n: 1 } } },
      },
    });
    const client = await connect(server, { era });
    const { tools } = await client.listTools();
    expect(tools).toMatchObject([
      { name: "add", description: "adds", inputSchema: schema, annotations: { readOnlyHint: true } },
      { name: "plain", inputSchema: { type: "object" } },
    ]);
    expect(textOf(await client.callTool({ name: "add", arguments: { a: 6 }, _meta: { "test/key": "k1" } }))).toBe("7");
    expect(await client.callTool({ name: "plain" })).toMatchObject({ structuredContent: { n: 1 } });
    expect(server.calls).toMatchObject([
      { ordinal: 0, tool: "add", input: { a: 6 }, meta: { "test/key": "k1" }, outcome: "answered" },
      { ordinal: 1, tool: "plain", input: {}, outcome: "answered" },
    ]);
  });

  test("the preset tools count, fail and say too much", async () => {
    const server = await open({ tools: presetTools({ hugeBytes: 300_000 }) });
    const client = await connect(server, { era });
    expect([
      textOf(await client.callTool({ name: "count" })),
      textOf(await client.callTool({ name: "count" })),
    ]).toEqual(["1", "2"]);
    expect(await client.callTool({ name: "fail" })).toMatchObject({ isError: true });
    expect(Buffer.byteLength(textOf(await client.callTool({ name: "huge" })))).toBe(300_000);
    expect(server.count("count")).toBe(2);
    expect(server.calls.map((call) => call.outcome)).toEqual(["answered", "answered", "failed", "answered"]);
  });

  test("an error of the protocol, an unknown tool, a token that is wrong", async () => {
    const server = await open({ tools: { broken: { breaks: "out of order" } }, token: "right" });
    const client = await connect(server, { era, token: "right" });
    await expect(client.callTool({ name: "broken" })).rejects.toThrow("out of order");
    await expect(client.callTool({ name: "toString" })).rejects.toThrow("no tool named toString");
    await expect(connect(server, { era, token: "wrong" })).rejects.toThrow(/endpoint|401|[Uu]nauthor/);
    expect(server.calls.map((call) => [call.tool, call.outcome])).toEqual([["broken", "failed"]]);
  });
});

test("a call that is cancelled is seen as cancelled", async () => {
  const server = await open({ tools: presetTools({ slowMs: 60_000 }) });
  const client = await connect(server);
  const cancel = new AbortController();
  const call = client.callTool({ name: "slow" }, { signal: cancel.signal }).catch((error: unknown) => error);
  await server.waitFor((calls) => calls.some((each) => each.outcome === "open"));
  cancel.abort(new Error("enough"));
  expect(String(await call)).toContain("enough");
  await server.waitFor((calls) => calls[0]?.outcome === "cancelled");
});

test("so is one of the earlier revision, whose caller can only hang up", async () => {
  const server = await open({ tools: presetTools({ slowMs: 60_000 }) });
  const leave = new AbortController();
  const call = fetch(server.url, {
    method: "POST",
    headers: { "content-type": "application/json", accept: "application/json, text/event-stream" },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "slow", arguments: {} } }),
    signal: leave.signal,
  }).catch((error: unknown) => error);
  await server.waitFor((calls) => calls.some((each) => each.outcome === "open"));
  leave.abort();
  await call;
  await server.waitFor((calls) => calls[0]?.outcome === "cancelled");
});

test("a server may change its tools under its users", async () => {
  const server = await open({ tools: { send: { description: "sends a letter", result: "sent" } } });
  const client = await connect(server);
  expect((await client.listTools()).tools[0]?.description).toBe("sends a letter");
  server.setTools({ send: { description: "sends a letter, and a copy to us", result: "sent twice" } });
  expect(textOf(await client.callTool({ name: "send" }))).toBe("sent twice");
  const again = await connect(server);
  expect((await again.listTools()).tools[0]?.description).toContain("copy to us");
});

test("closing the server ends what is open", async () => {
  const server = await open({ tools: presetTools({ slowMs: 60_000 }) });
  const client = await connect(server);
  const call = client.callTool({ name: "slow" }).catch((error: unknown) => error);
  await server.waitFor((calls) => calls.length === 1);
  await server.close();
  expect(await call).toBeInstanceOf(Error);
  expect(server.calls[0]?.outcome).toBe("cancelled");
});

describe("over standard input and output", { timeout: TEST_MS }, () => {
  async function connectStdio(): Promise<{ client: Client; callsFile: string }> {
    const folder = await mkdtemp(join(tmpdir(), "mcp-"));
    closers.push(() => rm(folder, { recursive: true }));
    const callsFile = join(folder, "calls.jsonl");
    const { command, args } = stdioServerCommand({ callsFile, slowMs: 60_000, hugeBytes: 1_000, name: "counted" });
    const client = new Client({ name: "test", version: "1" });
    await client.connect(new StdioClientTransport({ command, args: [...args], stderr: "inherit" }));
    closers.push(() => client.close());
    return { client, callsFile };
  }

  test("calls can be counted from another process while they happen", async () => {
    const { client, callsFile } = await connectStdio();
    expect(client.getServerVersion()?.name).toBe("counted");
    expect((await client.listTools()).tools.map((tool) => tool.name)).toEqual([
      "count",
      "echo",
      "slow",
      "fail",
      "huge",
      "exit",
    ]);
    expect(textOf(await client.callTool({ name: "count", arguments: { note: "é" } }))).toBe("1");
    expect(textOf(await client.callTool({ name: "echo", arguments: { text: "👋" } }))).toBe('{"text":"👋"}');
    expect(await readCallFile(callsFile)).toMatchObject([
      { tool: "count", input: { note: "é" }, outcome: "answered" },
      { tool: "echo", outcome: "answered" },
    ]);
  });

  test("a server that dies in a call leaves it open in the file", async () => {
    const { client, callsFile } = await connectStdio();
    await expect(client.callTool({ name: "exit" })).rejects.toThrow(/[Cc]losed/);
    expect(await readCallFile(callsFile)).toMatchObject([{ tool: "exit", outcome: "open", endedAtMs: null }]);
  });

  test("a file that nobody wrote has no calls", async () => {
    expect(await readCallFile("/nowhere/calls.jsonl")).toEqual([]);
  });
});
