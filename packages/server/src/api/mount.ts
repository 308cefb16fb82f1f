/** Puts a route on the server: who asks, then what they ask for, then the route's own answer. */
import { PlatformError } from "@signalbox/contract";
import type { FastifyInstance, FastifyRequest } from "fastify";
import { demand, type Caller, type Callers } from "./caller.ts";
import { parseBody, parseQuery } from "./request-input.ts";
import { HIJACKED, type Route } from "./route.ts";
import { traceIdOf } from "./trace.ts";

export function mount(app: FastifyInstance, route: Route, callers: Callers): void {
  const known = new WeakMap<FastifyRequest, Caller>();
  app.route({
    method: route.method,
    url: route.path.replaceAll(/\{([a-z]+)\}/g, ":$1"),
    // A HEAD of a stream would be a stream without an end.
    ...(route.method === "GET" ? { exposeHeadRoute: route.responses[200]?.stream !== true } : {}),
    // Before the body is read: a stranger does not make us read one.
    async onRequest(request) {
      known.set(request, await identify(route, callers, request));
    },
    async handler(request, reply) {
      const answer = await route.handle({
        caller: known.get(request) ?? NOBODY,
        // The router fills in exactly the parameters that the path names.
        params: request.params as Readonly<Record<string, string>>,
        query: parseQuery(route.query, request.query),
        body: parseBody(route.body, request.body),
        given: request.body ?? null,
        headers: request.headers,
        requestId: request.id,
        traceId: traceIdOf(request.headers.traceparent),
        url: request.url,
        reply,
      });
      if (answer === HIJACKED) return reply;
      reply.code(answer.status).headers(answer.headers ?? {});
      if (answer.body === null) return reply.send();
      return reply
        .type(answer.headers?.["content-type"] ?? "application/json")
        .send(typeof answer.body === "string" ? answer.body : JSON.stringify(answer.body));
    },
  });
}

const NOBODY: Caller = {
  key: { id: "", tenantId: "", name: "", rights: [] },
  scope: { tenantId: "", user: null },
  actor: { keyId: "", user: null, roles: [], units: [] },
};

async function identify(route: Route, callers: Callers, request: FastifyRequest): Promise<Caller> {
  if (route.right === null) return NOBODY;
  const actor = request.headers["signalbox-actor"];
  if (Array.isArray(actor)) throw new PlatformError("invalid_actor");
  const caller = await callers.identify({ authorization: request.headers.authorization, actor });
  demand(caller, route.right);
  return caller;
}
