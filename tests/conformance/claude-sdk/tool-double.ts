/** A tool gate on 127.0.0.1: MCP over stateless HTTP with one tool, as small as the engine accepts. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";

export interface ToolCall {
  readonly name: string;
  readonly args: Readonly<Record<string, unknown>>;
  readonly toolUseId: string | null;
}

export interface ToolDouble extends AsyncDisposable {
  readonly url: string;
  readonly calls: readonly ToolCall[];
  readonly authorizations: ReadonlySet<string>;
  /** What the tool answers. */
  handle: (call: ToolCall) => string | Promise<string>;
  /** What the gate lists; less than the agent was given when tools are withheld. */
  listed: readonly (typeof TOOL)[];
}

interface Rpc {
  readonly id?: number | string;
  readonly method: string;
  readonly params?: {
    readonly name?: string;
    readonly protocolVersion?: string;
    readonly arguments?: Readonly<Record<string, unknown>>;
    readonly _meta?: Readonly<Record<string, unknown>>;
  };
}

export const TOOL = {
  name: "docs__read",
  description: "Reads a document.",
  inputSchema: { type: "object", properties: { path: { type: "string" } }, required: ["path"] },
} as const;

export async function startToolDouble(token: string): Promise<ToolDouble> {
  const calls: ToolCall[] = [];
  const authorizations = new Set<string>();
  const state: { handle: ToolDouble["handle"]; listed: ToolDouble["listed"] } = {
    handle: (call) => `contents of ${String(call.args.path)}`,
    listed: [TOOL],
  };
  const resultOf = async ({ method, params }: Rpc): Promise<unknown> => {
    if (method === "initialize") {
      const serverInfo = { name: "gate", version: "1" };
      return { protocolVersion: params?.protocolVersion, capabilities: { tools: {} }, serverInfo };
    }
    if (method === "tools/list") {
      return { tools: state.listed };
    }
    if (method === "tools/call") {
      const toolUseId = params?._meta?.["claudecode/toolUseId"] ?? params?._meta?.["signalbox/toolUseId"];
      const call = {
        name: params?.name ?? "",
        args: params?.arguments ?? {},
        toolUseId: typeof toolUseId === "string" ? toolUseId : null,
      };
      calls.push(call);
      return { content: [{ type: "text", text: await state.handle(call) }] };
    }
    return {};
  };
  const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) {
      chunks.push(chunk as Buffer);
    }
    authorizations.add(request.headers.authorization ?? "");
    if (request.method !== "POST" || request.headers.authorization !== `Bearer ${token}`) {
      response.writeHead(request.method === "POST" ? 401 : 405).end();
      return;
    }
    const rpc = JSON.parse(Buffer.concat(chunks).toString("utf8")) as Rpc;
    if (rpc.id === undefined) {
      response.writeHead(202).end();
      return;
    }
    const result = await resultOf(rpc);
    response.writeHead(200, { "content-type": "application/json" });
    response.end(JSON.stringify({ jsonrpc: "2.0", id: rpc.id, result }));
  };
  const server = createServer((request, response) => {
    answer(request, response).catch(() => response.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address() as { readonly port: number };
  return {
    url: `http://127.0.0.1:${address.port}/mcp/units/default`,
    calls,
    authorizations,
    get handle() {
      return state.handle;
    },
    set handle(next) {
      state.handle = next;
    },
    get listed() {
      return state.listed;
    },
    set listed(next) {
      state.listed = next;
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
