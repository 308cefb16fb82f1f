/** One instance of the scripted MCP server: the official server, with our tools behind it. */
import { ProtocolError, ProtocolErrorCode, Server } from "@modelcontextprotocol/server";
import { type CallBook, runTool, type ScriptedTools, toolDefinitions } from "./scripted-tool.ts";

export interface InstanceOptions {
  readonly name: string;
  /** Asked anew for every request: the tools of a server may change under its users. */
  readonly tools: () => ScriptedTools;
  readonly book: CallBook;
  /** Aborted when the caller's connection is gone, where a connection serves one request. */
  readonly gone: AbortSignal | null;
}

export function mcpInstance({ name, tools, book, gone }: InstanceOptions): Server {
  const server = new Server({ name, version: "1.0.0" }, { capabilities: { tools: {} } });
  server.setRequestHandler("tools/list", () => ({ tools: toolDefinitions(tools()) }));
  server.setRequestHandler("tools/call", async ({ params }, { mcpReq }) => {
    const offered = tools();
    const tool = Object.hasOwn(offered, params.name) ? offered[params.name] : undefined;
    if (tool === undefined) {
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `There is no tool named ${params.name}.`);
    }
    const input = params.arguments ?? {};
    const meta = { ...mcpReq._meta };
    const signal = gone === null ? mcpReq.signal : AbortSignal.any([mcpReq.signal, gone]);
    const earlierCalls = book.calls.filter((call) => call.tool === params.name).length;
    const call = book.open({ tool: params.name, input, meta });
    try {
      const result = await runTool(tool, input, { signal, meta, earlierCalls });
      call.close(signal.aborted ? "cancelled" : result.isError === true ? "failed" : "answered");
      return result;
    } catch (error) {
      call.close(signal.aborted ? "cancelled" : "failed");
      throw error;
    }
  });
  return server;
}
