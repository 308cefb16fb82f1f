/**
 * The platform's second listener, for engines and workers only: model gate, tool gate and the Connect services
 * (record gate, registry) on one HTTP/1.1 address. It routes by path and never looks at a body. A supervisor whose
 * gates are elsewhere opens it for the registry alone.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { ConnectRouter } from "@connectrpc/connect";
import { connectNodeAdapter } from "@connectrpc/connect-node";
import type { Clock } from "@signalbox/core";

/** A gate answers every request given to it, also with an error; it never throws. */
export interface Gate {
  handle(request: IncomingMessage, response: ServerResponse): void;
}

export interface GateServerOptions {
  /** Both `null` where this process has no gates. */
  readonly modelGate: Gate | null;
  readonly toolGate: Gate | null;
  /** For those who show an API key instead of a slot token. */
  readonly gateway?: Gate | null;
  /** Problems that keep this process from serving; empty when it is ready. Left out: it is always ready. */
  readonly unreadiness?: () => Promise<readonly string[]>;
  /** Connect services, each mounted under its own name. */
  readonly connectRoutes: readonly ((router: ConnectRouter) => void)[];
  /** Limit of one Connect message, either way. */
  readonly messageBytesMax: number;
  readonly host: string;
  /** 0 takes a free port. */
  readonly port: number;
  readonly clock: Clock;
}

export interface GateServer extends AsyncDisposable {
  readonly port: number;
  /** `http://host:port`, without a path. */
  readonly url: string;
  /** Takes no new connection, lets open requests end for `graceMs`, then closes what is left. */
  close(options: { readonly graceMs: number }): Promise<void>;
}

/** Longer than the idle time of any client of ours, so that the client is always the one to close. */
const KEEP_ALIVE_MS = 75_000;
const HEADERS_MS = 20_000;
const REQUEST_MS = 120_000;
const DISPOSE_GRACE_MS = 1_000;

export async function createGateServer(options: GateServerOptions): Promise<GateServer> {
  const server = createServer(
    { keepAlive: true, noDelay: true, keepAliveTimeout: KEEP_ALIVE_MS, headersTimeout: HEADERS_MS },
    routerOf(options),
  );
  // Bounds how long a request may take to arrive; answers may stream for as long as they need.
  server.requestTimeout = REQUEST_MS;
  await listen(server, options);
  // A server that listens on TCP has an address of this kind.
  const { port } = server.address() as AddressInfo;
  const close = async ({ graceMs }: { readonly graceMs: number }): Promise<void> => {
    if (!server.listening) return;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeIdleConnections();
    const waiting = new AbortController();
    const grace = options.clock.sleep(graceMs, waiting.signal).then(() => server.closeAllConnections());
    await closed;
    waiting.abort();
    await grace;
  };
  return {
    port,
    url: `http://${options.host.includes(":") ? `[${options.host}]` : options.host}:${port}`,
    close,
    [Symbol.asyncDispose]: () => close({ graceMs: DISPOSE_GRACE_MS }),
  };
}

function routerOf(options: GateServerOptions): (request: IncomingMessage, response: ServerResponse) => void {
  const { modelGate, toolGate, gateway } = options;
  const connect = connectNodeAdapter({
    routes: (router) => {
      for (const mount of options.connectRoutes) mount(router);
    },
    readMaxBytes: options.messageBytesMax,
    writeMaxBytes: options.messageBytesMax,
    fallback: (_request, response) => sendPlain(response, 404, "There is nothing at this address."),
  });
  return (request, response) => {
    const path = request.url ?? "/";
    if (request.headers.origin !== undefined) {
      // Engines are not browsers: a page that found this port must get nothing from it.
      sendPlain(response, 403, "This address is not for browsers.");
    } else if (path === "/healthz") {
      sendPlain(response, 200, "ok");
    } else if (path === "/readyz") {
      // Cannot fail: problems are what it tells.
      sendReadiness(response, options.unreadiness ?? (async () => [])).catch(() => undefined);
    } else if (modelGate !== null && (path === "/model" || path.startsWith("/model/"))) {
      modelGate.handle(request, response);
    } else if (toolGate !== null && path.startsWith("/mcp/")) {
      const gate = isApiKey(request.headers.authorization) ? (gateway ?? toolGate) : toolGate;
      gate.handle(request, response);
    } else {
      connect(request, response);
    }
  };
}

/** By its form alone; what it opens is the gateway's to find out. */
function isApiKey(authorization: string | undefined): boolean {
  return authorization !== undefined && /^bearer +sbx_/i.test(authorization);
}

/** The part of an answer that HTTP/1.1 and the Connect adapter have in common. */
interface PlainResponse {
  writeHead(status: number, headers: Readonly<Record<string, string>>): unknown;
  end(text: string): unknown;
}

function sendPlain(response: PlainResponse, status: number, text: string): void {
  response.writeHead(status, { "content-type": "text/plain; charset=utf-8" });
  response.end(`${text}\n`);
}

/** The same document as that of the API. */
async function sendReadiness(response: ServerResponse, unreadiness: () => Promise<readonly string[]>): Promise<void> {
  const problems = await unreadiness().catch(() => ["it cannot be told"]);
  const ready = problems.length === 0;
  response.writeHead(ready ? 200 : 503, { "content-type": "application/json; charset=utf-8" });
  response.end(JSON.stringify({ status: ready ? "ready" : "not_ready", problems }));
}

function listen(server: Server, options: GateServerOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(options.port, options.host, () => {
      server.off("error", reject);
      resolve();
    });
  });
}
