/** The protocol's inspector, on its command line, lists and calls tools through the gateway, whichever era it speaks. */
import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { startMcpServer } from "@signalbox/testkit";
import { afterAll, beforeAll, expect, it } from "vitest";
import { LETS_ALL, startGatewayWorld, type GatewayWorld } from "./gateway-fixture.ts";

const INSPECTOR = join(
  dirname(createRequire(import.meta.url).resolve("@modelcontextprotocol/inspector/package.json")),
  "clients/launcher/build/index.js",
);
const RUN_MS = 60_000;
const stack = new AsyncDisposableStack();
let world: GatewayWorld;
let key: string;
let home: string;

beforeAll(async () => {
  home = mkdtempSync(join(tmpdir(), "inspector-"));
  stack.defer(() => rmSync(home, { recursive: true, force: true }));
  const tools = {
    greet: {
      inputSchema: { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
      handler: (input: Readonly<Record<string, unknown>>) => `hello ${String(input.name)}`,
    },
  };
  const server = stack.use(await startMcpServer({ tools }));
  const greeter = { transport: "http", url: server.url, headers: {}, tools: { greet: { effect: "read" } } } as const;
  world = stack.use(await startGatewayWorld({ policy: LETS_ALL, servers: { greeter } }));
  key = await world.key();
}, RUN_MS);
afterAll(() => stack.disposeAsync());

function inspect(path: string, ...words: readonly string[]): Promise<string> {
  const target = ["--cli", `${world.url}${path}`, "--transport", "http", "--header", `Authorization: Bearer ${key}`];
  const env = { PATH: process.env.PATH ?? "", HOME: home, TMPDIR: home };
  return new Promise((resolve, reject) => {
    execFile(process.execPath, [INSPECTOR, ...target, ...words], { env, timeout: RUN_MS }, (error, stdout, stderr) => {
      if (error === null) resolve(stdout);
      else reject(new Error(`${stdout}\n${stderr}`, { cause: error }));
    });
  });
}

it.each([
  ["legacy", "/mcp/servers/greeter", "greet"],
  ["modern", "/mcp/servers/greeter", "greet"],
  ["auto", "/mcp/units/default", "greeter__greet"],
])(
  "the inspector in the era %s lists and calls at %s",
  async (era, path, tool) => {
    const listed = await inspect(path, "--protocol-era", era, "--method", "tools/list");
    expect(listed).toContain(`"${tool}"`);
    const words = ["--method", "tools/call", "--tool-name", tool, "--tool-arg", "name=Ana"];
    expect(await inspect(path, "--protocol-era", era, ...words)).toContain("hello Ana");
  },
  RUN_MS,
);
