import { clip } from "@signalbox/contract";
import { RPC } from "../mcp-protocol.ts";
import { McpProblem } from "../mcp-request.ts";

const NAME_CHARS = 200;

/** The problem of a tool nobody offers this client: the same whether or not there is one. */
export function unknownTool(name: string): McpProblem {
  return new McpProblem(`Unknown tool: ${clip(name, NAME_CHARS)}`, { status: 200, rpcCode: RPC.invalidParams });
}
