/**
 * A scripted MCP server of the era with a handshake: it keeps something for each session, loses its sessions when it is
 * told to, and does not stop what it is told to cancel. It only listens on 127.0.0.1.
 */
import { randomUUID } from "node:crypto";
import { fromJsonSchema, McpServer, WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/server";
import { newWatchers } from "../sim/watchers.ts";
import { listenLocally, type LocalServer } from "./fetch-server.ts";

/** What the server offers and demands. */
export interface SessionServerOptions {
  /** 0, the default, takes any free port. */
  readonly port?: number;
  /** Asked at each request: whether this bearer is taken. Default: none is needed. */
  readonly takesToken?: (token: string | null) => boolean;
}

/** A running server and what happened to it. Disposing of it closes it. */
export interface SessionServer extends LocalServer {
  /** How many sessions were opened so far. */
  readonly openedCount: number;
  /** Names of the tools called, in order; `slow` once when it begins and once, as `slow done`, when it ends. */
  readonly calls: readonly string[];
  /** Ids of requests that somebody cancelled. */
  readonly cancelled: readonly unknown[];
  /** Every header that arrived, by name, with all its values. */
  readonly headers: ReadonlyMap<string, ReadonlySet<string>>;
  /** Forgets every session, as a server does that was started again. */
  forget(): void;
  /** Lets `slow` end. */
  release(): void;
  /** Waits until the condition holds; ends with `internal` after `withinMs` (default 5,000). */
  waitFor(holds: () => boolean, withinMs?: number): Promise<void>;
}

const WAIT_MS = 5_000;

/** Starts the server with the tools `set`, `get`, `slow` and `slow_read`. Rejects with Node's error when the port is taken. */
export async function startSessionServer(options: SessionServerOptions = {}): Promise<SessionServer> {
  const sessions = new Map<string, WebStandardStreamableHTTPServerTransport>();
  const headers = new Map<string, Set<string>>();
  const calls: string[] = [];
  const cancelled: unknown[] = [];
  const releases = new Set<() => void>();
  let openedCount = 0;
  const { changed, waitFor } = newWatchers();
  const called = (name: string): void => {
    calls.push(name);
    changed();
  };
  const held = (): Promise<void> => new Promise((resolve) => releases.add(resolve));
  const server = await listenLocally(options.port ?? 0, async (request) => {
    for (const [name, value] of request.headers) headers.set(name, (headers.get(name) ?? new Set()).add(value));
    if (!isTaken(request, options)) return new Response(null, { status: 401 });
    const cancel = await cancelIn(request);
    if (cancel !== null) {
      // Heard and not heeded.
      cancelled.push(cancel.requestId);
      changed();
      return new Response(null, { status: 202 });
    }
    const id = request.headers.get("mcp-session-id");
    const known = id === null ? undefined : sessions.get(id);
    if (id !== null) return known?.handleRequest(request) ?? new Response(null, { status: 404 });
    const transport = new WebStandardStreamableHTTPServerTransport({
      sessionIdGenerator: randomUUID,
      onsessioninitialized(name) {
        openedCount += 1;
        sessions.set(name, transport);
      },
      onsessionclosed: (name) => void sessions.delete(name),
    });
    await sessionServer({ called, held }).connect(transport);
    return transport.handleRequest(request);
  });
  const release = (): void => {
    for (const resolve of releases) resolve();
    releases.clear();
  };
  const close = async (): Promise<void> => {
    release();
    await Promise.all([...sessions.values()].map((transport) => transport.close()));
    await server.close();
  };
  return {
    ...server,
    calls,
    cancelled,
    headers,
    get openedCount() {
      return openedCount;
    },
    forget: () => sessions.clear(),
    release,
    waitFor: (holds, withinMs) => waitFor({ holds, withinMs: withinMs ?? WAIT_MS, seen: () => calls.join(", ") }),
    close,
    [Symbol.asyncDispose]: close,
  };
}

function isTaken(request: Request, { takesToken }: SessionServerOptions): boolean {
  const bearer = /^Bearer (.*)$/.exec(request.headers.get("authorization") ?? "")?.[1] ?? null;
  return takesToken === undefined || takesToken(bearer);
}

async function cancelIn(request: Request): Promise<{ readonly requestId: unknown } | null> {
  if (request.method !== "POST") return null;
  // What clients of tests send is JSON; what is not fails at the server below.
  const body = (await request
    .clone()
    .json()
    .catch(() => null)) as { readonly method?: string; readonly params?: { readonly requestId?: unknown } } | null;
  return body?.method === "notifications/cancelled" ? { requestId: body.params?.requestId } : null;
}

function sessionServer({
  called,
  held,
}: {
  readonly called: (name: string) => void;
  readonly held: () => Promise<void>;
}): McpServer {
  const server = new McpServer({ name: "sessions", version: "1.0.0" }, { capabilities: { tools: {} } });
  const text = (said: string) => ({ content: [{ type: "text" as const, text: said }] });
  let kept = "nothing";
  const value = fromJsonSchema<{ readonly value: string }>({
    type: "object",
    properties: { value: { type: "string" } },
    required: ["value"],
  });
  server.registerTool("set", { description: "keeps a value", inputSchema: value }, ({ value: given }) => {
    called("set");
    kept = given;
    return text("kept");
  });
  server.registerTool("get", { description: "the value kept" }, () => {
    called("get");
    return text(kept);
  });
  for (const name of ["slow", "slow_read"]) {
    server.registerTool(name, { description: "ends when it is let" }, async () => {
      called(name);
      await held();
      called(`${name} done`);
      return text("late");
    });
  }
  return server;
}
