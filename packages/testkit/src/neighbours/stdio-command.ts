/** The command line of the scripted MCP server over standard input and output. */
import { nodeArguments } from "../sim/node-entry.ts";

/** What the server is started with; it offers the preset tools, among them `count`, `echo`, `slow` and `huge`. */
export interface StdioServerOptions {
  /** Where the calls are written, one line of JSON for each beginning and each end; see `readCallFile`. */
  readonly callsFile: string;
  readonly name?: string;
  readonly slowMs?: number;
  readonly hugeBytes?: number;
}

export interface Command {
  readonly command: string;
  readonly args: readonly string[];
}

/** The program and arguments that start the server; whoever runs them speaks MCP over its standard input and output. */
export function stdioServerCommand({ callsFile, name, slowMs, hugeBytes }: StdioServerOptions): Command {
  return {
    command: process.execPath,
    args: [
      ...nodeArguments("neighbours/mcp-stdio"),
      "--calls",
      callsFile,
      ...(name === undefined ? [] : ["--name", name]),
      ...(slowMs === undefined ? [] : ["--slow-ms", String(slowMs)]),
      ...(hugeBytes === undefined ? [] : ["--huge-bytes", String(hugeBytes)]),
    ],
  };
}
