/** A tool gate over one scripted HTTP server named `docs`. */
import { startMcpServer, type McpNeighbour, type ScriptedTools } from "@signalbox/testkit";
import type { FileSettings } from "../../../packages/server/src/tool-gate/tool-server.ts";
import { startToolFixture, type ToolFixture, type ToolFixtureOptions } from "./tool-fixture.ts";

const scripted: ScriptedTools = {
  read: { handler: (input) => `read ${JSON.stringify(input)}` },
  pay: { handler: (_input, { earlierCalls }) => `paid ${earlierCalls + 1}` },
  slow: { delayMs: 60_000, result: "late" },
  fails: { fails: "no such file" },
  breaks: { breaks: "cannot reach http://127.0.0.1:0/mcp" },
};

const effects: Readonly<Record<string, FileSettings>> = {
  read: { effect: "read" },
  slow: { effect: "read" },
  fails: { effect: "read" },
  breaks: { effect: "read" },
};

export async function withHttpServer(
  test: (fixture: ToolFixture, neighbour: McpNeighbour) => Promise<void>,
  options: Omit<ToolFixtureOptions, "servers"> & {
    readonly tools?: never;
    readonly scripted?: ScriptedTools;
    readonly effects?: Readonly<Record<string, FileSettings>>;
  } = {},
): Promise<void> {
  await using neighbour = await startMcpServer({ tools: options.scripted ?? scripted });
  const docs = {
    transport: "http",
    url: neighbour.url,
    headers: { "x-key": "secret" },
    tools: options.effects ?? effects,
  } as const;
  await using fixture = await startToolFixture({ ...options, servers: { docs } });
  await test(fixture, neighbour);
}

export const payCall = { id: "toolu_2", name: "docs__pay", input: { cents: 5 } };
