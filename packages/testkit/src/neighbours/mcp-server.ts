/** A scripted MCP server over streamable HTTP, stateless, on this machine: speaks both current revisions of the protocol. */
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { createMcpHandler, type McpHttpHandler } from "@modelcontextprotocol/server";
import { newWatchers } from "../sim/watchers.ts";
import { mcpInstance } from "./mcp-instance.ts";
import { newCallBook, type RecordedCall, type ScriptedTools } from "./scripted-tool.ts";

/** What the server offers and where; it only listens on 127.0.0.1. */
export interface McpServerOptions {
  readonly tools: ScriptedTools;
  /** What the server calls itself. Default `scripted`. */
  readonly name?: string;
  /** 0, the default, takes any free port. */
  readonly port?: number;
  /** Requests without this bearer are refused with 401. Default: none is needed. */
  readonly token?: string;
  /** See `CallBookOptions`. */
  readonly callsFile?: string;
}

/** A running scripted MCP server and what it was called with. Disposing of it closes it. */
export interface McpNeighbour extends AsyncDisposable {
  /** The endpoint, with its path. */
  readonly url: string;
  readonly port: number;
  readonly calls: readonly RecordedCall[];
  /** Calls of one tool that have begun. */
  count(tool: string): number;
  /** Offer these tools from now on: a server may change under its users. */
  setTools(tools: ScriptedTools): void;
  /** Waits until the condition holds, checked after every change; ends with `internal` after `withinMs` (default 5,000). */
  waitFor(holds: (calls: readonly RecordedCall[]) => boolean, withinMs?: number): Promise<void>;
  close(): Promise<void>;
}

const PATH = "/mcp";
const DEFAULT_WAIT_MS = 5_000;
const MOST_BODY_BYTES = 4 * 1024 * 1024;

/** Starts a scripted MCP server on 127.0.0.1. Rejects with Node's error when the port is taken. */
export async function startMcpServer(options: McpServerOptions): Promise<McpNeighbour> {
  let { tools } = options;
  const { changed, waitFor } = newWatchers();
  const book = newCallBook({ callsFile: options.callsFile, onChange: changed });
  const handler = createMcpHandler(({ requestInfo }) =>
    mcpInstance({ name: options.name ?? "scripted", tools: () => tools, book, gone: requestInfo?.signal ?? null }),
  );
  const working = new Set<Promise<void>>();
  const server = createServer((incoming, response) => {
    const work = relay({ incoming, response }, handler, options.token ?? null)
      .catch(() => {
        response.destroy();
      })
      .finally(() => {
        working.delete(work);
      });
    working.add(work);
  });
  server.listen(options.port ?? 0, "127.0.0.1");
  await once(server, "listening");
  // A TCP server that listens has an address of this kind.
  const { port } = server.address() as AddressInfo;
  const close = async () => {
    const closed = server.listening ? once(server, "close") : null;
    server.close();
    server.closeAllConnections();
    await handler.close();
    await closed;
    await Promise.all(working);
  };
  return {
    url: `http://127.0.0.1:${port}${PATH}`,
    port,
    calls: book.calls,
    count: (tool) => book.calls.filter((call) => call.tool === tool).length,
    setTools(next) {
      tools = next;
    },
    waitFor: (holds, withinMs) =>
      waitFor({
        holds: () => holds(book.calls),
        withinMs: withinMs ?? DEFAULT_WAIT_MS,
        seen: () => book.calls.map(({ tool, outcome }) => `${tool} ${outcome}`).join(", "),
      }),
    close,
    [Symbol.asyncDispose]: close,
  };
}

interface Pair {
  readonly incoming: IncomingMessage;
  readonly response: ServerResponse;
}

/** From Node's request to the handler's and back. */
async function relay({ incoming, response }: Pair, handler: McpHttpHandler, token: string | null): Promise<void> {
  const gone = new AbortController();
  response.once("close", () => gone.abort());
  const chunks: Buffer[] = [];
  let size = 0;
  // Without an encoding set, what a request yields are buffers.
  for await (const chunk of incoming as AsyncIterable<Buffer>) {
    size += chunk.length;
    chunks.push(chunk);
    if (size > MOST_BODY_BYTES) {
      response.writeHead(413).end();
      return;
    }
  }
  if (token !== null && incoming.headers.authorization !== `Bearer ${token}`) {
    response.writeHead(401, { "www-authenticate": "Bearer" }).end();
    return;
  }
  const { pathname } = new URL(incoming.url ?? "/", "http://127.0.0.1");
  if (pathname !== PATH) {
    response.writeHead(404).end();
    return;
  }
  const headers = Object.entries(incoming.headers).flatMap(([name, value]): [string, string][] =>
    value === undefined ? [] : [[name, Array.isArray(value) ? value.join(", ") : value]],
  );
  const method = incoming.method ?? "GET";
  const answer = await handler.fetch(
    new Request(`http://127.0.0.1${PATH}`, {
      method,
      headers,
      signal: gone.signal,
      ...(size > 0 ? { body: Buffer.concat(chunks) } : {}),
    }),
  );
  response.writeHead(answer.status, Object.fromEntries(answer.headers));
  response.end(Buffer.from(await answer.arrayBuffer()));
}
