/**
 * The HTTP server. Whatever goes wrong, at whatever level, is answered with a problem document and a code of the table,
 * and every answer names its request. The caller is identified before a byte of the body is read.
 */
import { randomBytes } from "node:crypto";
import type { AddressInfo } from "node:net";
import { makeId, PlatformError, uuidV7Bytes } from "@signalbox/contract";
import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from "fastify";
import { apiRoutes } from "./api-routes.ts";
import { Callers } from "./caller.ts";
import { checkBodyHeaders, parseJsonBody } from "./json-body.ts";
import { API_LIMITS } from "./limits.ts";
import { namingMissing } from "./missing.ts";
import { mount } from "./mount.ts";
import { mountPages, pagesOf, type Pages } from "./pages/pages.ts";
import { openApiDocument } from "./openapi.ts";
import { fromThrown, problemHeaders, problemOf } from "./problem.ts";
import type { Route } from "./route.ts";
import type { ApiServices } from "./services.ts";
import { answerOnSocket, OpenAnswers } from "./socket-problem.ts";

/** Reading a request may take this long; a stream that is being written has no limit. */
const REQUEST_TIMEOUT_MS = 30_000;
/** Requests that are being answered when the server closes may take this long to end. */
const CLOSE_WAIT_MS = 5_000;
const PARAMETER_LIMIT_CHARS = 128;

export function createApi(services: ApiServices): FastifyInstance {
  const open = new OpenAnswers();
  const app = Fastify({
    logger: false,
    bodyLimit: API_LIMITS.bodyBytes,
    requestTimeout: REQUEST_TIMEOUT_MS,
    forceCloseConnections: "idle",
    // A closing server and a missing host are answered below, in our words.
    return503OnClosing: false,
    http: { requireHostHeader: false },
    genReqId: newRequestId,
    routerOptions: { ignoreTrailingSlash: false, maxParamLength: PARAMETER_LIMIT_CHARS },
    frameworkErrors(thrown, request, reply) {
      // Sends and settles by itself: a reply is thenable only for handlers that wait for it.
      answerProblem(services, { thrown, request, reply });
    },
    clientErrorHandler: (error, socket) =>
      answerOnSocket(error, socket, { requestId: newRequestId(), version: services.version, open }),
  });
  open.watch(app.server);
  // An expectation nobody knows is passed over, as HTTP allows; otherwise Node answers in its own words.
  app.server.on("checkExpectation", (request, response) => app.routing(request, response));
  readJsonOnly(app);
  app.setErrorHandler((thrown, request, reply) => answerProblem(services, { thrown, request, reply }));
  const routes = apiRoutes(services);
  const document = openApiDocument(routes, services.version);
  const pages = pagesOf(document);
  app.addHook("onRequest", async (request, reply) => {
    nameAnswer(services, request, reply);
    if (services.stopping.aborted) throw new PlatformError("shutting_down");
    if (request.raw.httpVersion === "1.1" && request.headers.host === undefined) {
      throw new PlatformError("invalid_request", "A request names its host.", {
        fields: [{ pointer: "Host", detail: "is missing" }],
      });
    }
    if (services.gateway && pathOf(request.url).startsWith(GATEWAY)) {
      // The gateway speaks for itself, from the body's first byte on.
      reply.hijack();
      for (const [name, value] of Object.entries(reply.getHeaders())) {
        if (value !== undefined) reply.raw.setHeader(name, value);
      }
      services.gateway.handle(request.raw, reply.raw);
      return;
    }
    if (request.is404) throw noSuchAddress({ routes, pages }, request);
  });
  // Never reached: the hook above has answered. Without it the answer would be Fastify's own.
  app.setNotFoundHandler((request, reply) =>
    answerProblem(services, { thrown: new PlatformError("not_found"), request, reply }),
  );
  const callers = new Callers({ record: services.record, secret: services.secret, monotonicMs: services.monotonicMs });
  for (const each of routes) mount(app, each, callers);
  const description = JSON.stringify(document);
  app.get(DESCRIPTION, async (_request, reply) => reply.type("application/json").send(description));
  mountPages(app, pages);
  app.addHook("preClose", async () => boundClosing(app));
  return app;
}

/** Listens and tells the address, with the port that was given when 0 was asked for. */
export async function listen(
  app: FastifyInstance,
  options: { readonly host: string; readonly port: number },
): Promise<string> {
  await app.listen(options);
  // A listening TCP server answers with an address object.
  const { port } = app.server.address() as AddressInfo;
  const host = options.host.includes(":") ? `[${options.host}]` : options.host;
  return `http://${host === "0.0.0.0" || host === "[::]" ? "127.0.0.1" : host}:${port}`;
}

const GATEWAY = "/mcp/";
const DESCRIPTION = "/openapi.json";

function newRequestId(): string {
  return makeId("request", uuidV7Bytes(Date.now(), randomBytes(10)));
}

function readJsonOnly(app: FastifyInstance): void {
  app.removeAllContentTypeParsers();
  app.addContentTypeParser("application/json", { parseAs: "buffer" }, (request, body, done) => {
    try {
      checkBodyHeaders(request.headers);
      done(null, parseJsonBody(typeof body === "string" ? Buffer.from(body) : body));
    } catch (thrown) {
      done(fromThrown(thrown));
    }
  });
}

function nameAnswer(services: ApiServices, request: FastifyRequest, reply: FastifyReply): void {
  reply.header("signalbox-request-id", request.id).header("signalbox-version", services.version);
}

/** Another method of an address that exists, or an address that does not. */
function noSuchAddress(
  { routes, pages }: { readonly routes: readonly Route[]; readonly pages: Pages },
  request: FastifyRequest,
): PlatformError {
  const path = pathOf(request.url);
  const methods = new Set<string>();
  if (path === DESCRIPTION || pages.has(path)) methods.add("GET").add("HEAD");
  for (const route of routes) {
    if (!new RegExp(`^${route.path.replaceAll(/\{[a-z]+\}/g, "[^/]+")}$`).test(path)) continue;
    methods.add(route.method);
    if (route.method === "GET" && route.responses[200]?.stream !== true) methods.add("HEAD");
  }
  if (methods.size === 0) return new PlatformError("not_found", "There is nothing at this address.");
  const allow = [...methods].sort().join(", ");
  return new PlatformError("method_not_allowed", `This address takes ${allow}.`, { extra: { allow } });
}

function answerProblem(
  services: ApiServices,
  failure: { readonly thrown: unknown; readonly request: FastifyRequest; readonly reply: FastifyReply },
): FastifyReply {
  const { request, reply } = failure;
  const error = namingMissing(fromThrown(failure.thrown), request.params);
  const facts = { request: request.id, path: pathOf(request.url) };
  if (error.code === "internal") services.log.error("a request failed", error, facts);
  else if (error.facts.status >= 500) services.log.warn("a request was refused", { ...facts, code: error.code });
  const problem = problemOf(error, { id: request.id, url: request.url });
  nameAnswer(services, request, reply);
  return reply
    .code(problem.status)
    .headers(problemHeaders(error))
    .type("application/problem+json")
    .send(JSON.stringify(problem));
}

/** Idle connections are closed at once by the server itself; those that are not get a while, and no more. */
function boundClosing(app: FastifyInstance): void {
  const timer = setTimeout(() => app.server.closeAllConnections(), CLOSE_WAIT_MS);
  app.server.once("close", () => clearTimeout(timer));
}

function pathOf(url: string): string {
  return url.split("?")[0] ?? "/";
}
