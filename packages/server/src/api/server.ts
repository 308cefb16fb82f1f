/** The HTTP server: mounts the routes, identifies the caller, parses at the edge, answers problems. */
import { randomBytes } from "node:crypto";
import type { AddressInfo } from "node:net";
import { makeId, PlatformError, uuidV7Bytes } from "@signalbox/contract";
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { Callers, demand, type Caller } from "./caller.ts";
import { parseJsonBody } from "./json-body.ts";
import { API_LIMITS } from "./limits.ts";
import { openApiDocument } from "./openapi.ts";
import { fromThrown, problemOf } from "./problem.ts";
import { HIJACKED, type Route } from "./route.ts";
import { agentRoutes } from "./routes/agents.ts";
import { conversationRoutes } from "./routes/conversations.ts";
import { messageRoutes } from "./routes/messages.ts";
import { platformRoutes } from "./routes/platform.ts";
import { runRoutes } from "./routes/runs.ts";
import type { ApiServices } from "./services.ts";

const TRACEPARENT = /^00-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}$/;
/** Reading a body may take this long; a stream that is being written has no limit. */
const REQUEST_TIMEOUT_MS = 30_000;

export function apiRoutes(services: ApiServices): readonly Route[] {
  return [
    ...platformRoutes(services),
    ...agentRoutes(services),
    ...conversationRoutes(services),
    ...messageRoutes(services),
    ...runRoutes(services),
  ];
}

export function createApi(services: ApiServices): FastifyInstance {
  const app = Fastify({
    logger: false,
    bodyLimit: API_LIMITS.bodyBytes,
    requestTimeout: REQUEST_TIMEOUT_MS,
    forceCloseConnections: true,
    genReqId: () => makeId("request", uuidV7Bytes(Date.now(), randomBytes(10))),
    routerOptions: { ignoreTrailingSlash: false, maxParamLength: 128 },
  });
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (_request, body, done) => {
    try {
      done(null, parseJsonBody(body as Buffer));
    } catch (thrown) {
      done(fromThrown(thrown));
    }
  });
  app.addHook("onRequest", async (request, reply) => {
    reply.header("signalbox-request-id", request.id).header("signalbox-version", services.version);
  });
  app.setErrorHandler((thrown, request, reply) => answerProblem(services, { thrown, request, reply }));
  const routes = apiRoutes(services);
  const callers = new Callers({ record: services.record, secret: services.secret, monotonicMs: services.monotonicMs });
  for (const each of routes) mount(app, each, callers);
  const document = JSON.stringify(openApiDocument(routes, services.version));
  app.get("/openapi.json", async (_request, reply) => reply.type("application/json").send(document));
  app.setNotFoundHandler((request, reply) => {
    const other = routes.some((each) =>
      new RegExp(`^${each.path.replaceAll(/\{[a-z]+\}/g, "[^/]+")}$`).test(pathOf(request.url)),
    );
    const thrown = other
      ? new PlatformError("method_not_allowed")
      : new PlatformError("not_found", "There is nothing at this address.");
    return answerProblem(services, { thrown, request, reply });
  });
  return app;
}

/** Listens and tells the address, with the port that was given when 0 was asked for. */
export async function listen(
  app: FastifyInstance,
  options: { readonly host: string; readonly port: number },
): Promise<string> {
  await app.listen(options);
  const { port } = app.server.address() as AddressInfo;
  const host = options.host.includes(":") ? `[${options.host}]` : options.host;
  return `http://${host === "0.0.0.0" || host === "[::]" ? "127.0.0.1" : host}:${port}`;
}

function mount(app: FastifyInstance, definition: Route, callers: Callers): void {
  app.route({
    method: definition.method,
    url: definition.path.replaceAll(/\{([a-z]+)\}/g, ":$1"),
    async handler(request, reply) {
      const caller = await identify(definition, callers, request);
      const answer = await definition.handle({
        caller,
        params: request.params as Readonly<Record<string, string>>,
        query: definition.query === null ? null : definition.query.parse(request.query),
        body: definition.body === null ? null : definition.body.parse(request.body ?? null),
        headers: request.headers,
        requestId: request.id,
        traceId: traceIdOf(request),
        url: request.url,
        reply,
      });
      if (answer === HIJACKED) return reply;
      return reply
        .code(answer.status)
        .headers(answer.headers ?? {})
        .type("application/json")
        .send(typeof answer.body === "string" ? answer.body : JSON.stringify(answer.body));
    },
  });
}

const NOBODY: Caller = {
  key: { id: "", tenantId: "", name: "", rights: [] },
  scope: { tenantId: "", user: null },
  actor: { keyId: "", user: null, roles: [], units: [] },
};

async function identify(definition: Route, callers: Callers, request: FastifyRequest): Promise<Caller> {
  if (definition.right === null) return NOBODY;
  const header = request.headers["signalbox-actor"];
  if (Array.isArray(header)) throw new PlatformError("invalid_actor");
  const caller = await callers.identify({ authorization: request.headers.authorization, actor: header });
  demand(caller, definition.right);
  return caller;
}

function answerProblem(
  services: ApiServices,
  failure: { readonly thrown: unknown; readonly request: FastifyRequest; readonly reply: FastifyReply },
): FastifyReply {
  const { request, reply } = failure;
  const error = fromThrown(failure.thrown);
  if (error.code === "internal")
    services.log.error("a request failed", error, { request: request.id, path: pathOf(request.url) });
  const problem = problemOf(error, { id: request.id, url: request.url });
  if (error.retryAfterMs !== null)
    reply.header("retry-after", String(Math.max(1, Math.ceil(error.retryAfterMs / 1_000))));
  if (error.code === "conversation_busy") reply.header("x-should-retry", "false");
  return reply.code(problem.status).type("application/problem+json").send(JSON.stringify(problem));
}

function traceIdOf(request: FastifyRequest): string {
  const header = request.headers.traceparent;
  const match = typeof header === "string" ? TRACEPARENT.exec(header) : null;
  return match?.[1] ?? randomBytes(16).toString("hex");
}

function pathOf(url: string): string {
  return url.split("?")[0] ?? "/";
}
