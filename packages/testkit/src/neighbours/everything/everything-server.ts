/**
 * An MCP server that can everything the protocol's own conformance suite asks for, in both eras: without sessions in the
 * newer one, with a session for each client in the older one. It only listens on 127.0.0.1.
 */
import { randomUUID } from "node:crypto";
import {
  createMcpHandler,
  isLegacyRequest,
  McpServer,
  WebStandardStreamableHTTPServerTransport,
  type EventStore,
  type McpHttpHandler,
} from "@modelcontextprotocol/server";
import { listenLocally, type LocalServer } from "../fetch-server.ts";
import { offerContentTools } from "./content-tools.ts";
import { offerInputTools, verifyRequestState } from "./input-tools.ts";
import { offerPrompts, offerResources } from "./prompts-and-resources.ts";

const CAPABILITIES = {
  tools: { listChanged: true },
  prompts: { listChanged: true },
  resources: { listChanged: true, subscribe: true },
  logging: {},
  completions: {},
};
const RETRY_MS = 500;

/** Starts the server. Rejects with Node's error when the port is taken. */
export async function startEverythingServer(options: { readonly port?: number } = {}): Promise<LocalServer> {
  const sessions = new Map<string, WebStandardStreamableHTTPServerTransport>();
  const newServer = (): McpServer => everythingServer((list) => announce(handler, list));
  const handler: McpHttpHandler = createMcpHandler(newServer, { legacy: "reject" });
  const server = await listenLocally(options.port ?? 0, async (request) =>
    (await isLegacyRequest(request)) ? serveSession(request, { sessions, newServer }) : handler.fetch(request),
  );
  const close = async (): Promise<void> => {
    await handler.close();
    await Promise.all([...sessions.values()].map((transport) => transport.close()));
    await server.close();
  };
  return { ...server, close, [Symbol.asyncDispose]: close };
}

function announce(handler: McpHttpHandler, list: "tools" | "prompts"): void {
  if (list === "tools") handler.notify.toolsChanged();
  else handler.notify.promptsChanged();
}

function everythingServer(changed: (list: "tools" | "prompts") => void): McpServer {
  const server = new McpServer(
    { name: "everything", version: "1.0.0" },
    { capabilities: CAPABILITIES, requestState: { verify: verifyRequestState } },
  );
  offerContentTools(server, { changed });
  offerInputTools(server);
  offerPrompts(server);
  offerResources(server);
  server.server.setRequestHandler("completion/complete", () => ({
    completion: { values: [], total: 0, hasMore: false },
  }));
  server.server.setRequestHandler("logging/setLevel", () => ({}));
  server.server.setRequestHandler("resources/subscribe", () => ({}));
  server.server.setRequestHandler("resources/unsubscribe", () => ({}));
  return server;
}

interface Sessions {
  readonly sessions: Map<string, WebStandardStreamableHTTPServerTransport>;
  readonly newServer: () => McpServer;
}

async function serveSession(request: Request, { sessions, newServer }: Sessions): Promise<Response> {
  const id = request.headers.get("mcp-session-id");
  const known = id === null ? undefined : sessions.get(id);
  if (known !== undefined) return known.handleRequest(request);
  if (id !== null) {
    return Response.json(
      { jsonrpc: "2.0", id: null, error: { code: -32_001, message: "Session not found" } },
      { status: 404 },
    );
  }
  const transport = new WebStandardStreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (name) => void sessions.set(name, transport),
    onsessionclosed: (name) => void sessions.delete(name),
    eventStore: newEventStore(),
    retryInterval: RETRY_MS,
  });
  await newServer().connect(transport);
  return transport.handleRequest(request);
}

function newEventStore(): EventStore {
  const events: { readonly eventId: string; readonly streamId: string; readonly message: unknown }[] = [];
  return {
    storeEvent(streamId, message) {
      const eventId = `${streamId}_${events.length}`;
      events.push({ eventId, streamId, message });
      return Promise.resolve(eventId);
    },
    async replayEventsAfter(lastEventId, { send }) {
      const at = events.findIndex(({ eventId }) => eventId === lastEventId);
      const streamId = events[at]?.streamId ?? "";
      for (const event of events.slice(at + 1).filter((each) => each.streamId === streamId)) {
        // What was stored is what `send` is to send.
        await send(event.eventId, event.message as Parameters<typeof send>[1]);
      }
      return streamId;
    },
  };
}
