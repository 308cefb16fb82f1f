/** What the platform says about itself. */
import { ERROR_CODES, infoSchema, isErrorCode, PlatformError, runtimeListSchema } from "@signalbox/contract";
import { z } from "zod";
import { prefersPage } from "../accept.ts";
import { shownLimits } from "../limits.ts";
import { errorPage } from "../pages/error-page.ts";
import { PAGE_HEADERS } from "../pages/page-headers.ts";
import { route, type Route } from "../route.ts";
import type { ApiServices } from "../services.ts";

const FEATURES = {
  sse: true,
  feed: true,
  search: true,
  steering: true,
  holds: true,
  stops: true,
  idempotency: true,
  actors: true,
  toolGate: true,
  modelGate: true,
};

const healthSchema = z.object({ status: z.literal("ok") }).meta({ id: "Health" });
const readinessSchema = z
  .object({ status: z.enum(["ready", "not_ready"]), problems: z.array(z.string()) })
  .meta({ id: "Readiness" });
const errorPageSchema = z
  .object({ code: z.string(), title: z.string(), status: z.int(), fault: z.string(), retryable: z.boolean() })
  .meta({ id: "ErrorCode" });

export function platformRoutes(services: ApiServices): readonly Route[] {
  return [getInfo(services), listRuntimes(services), explainError(), getHealth(), getReadiness(services)];
}

function getInfo(services: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/info",
    operationId: "getInfo",
    summary: "Version, features, limits and providers",
    right: "read",
    query: null,
    body: null,
    responses: { 200: { description: "The platform", schema: infoSchema } },
    async handle() {
      const { version, eventRetentionDays, admissionLimits } = services;
      const limits = { ...shownLimits(admissionLimits), eventRetentionDays };
      const body = { name: "signalbox", version, apiVersion: "v1", features: FEATURES, limits };
      return { status: 200, body: { ...body, providers: services.providers() } };
    },
  });
}

function listRuntimes(services: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/runtimes",
    operationId: "listRuntimes",
    summary: "What connected workers can run",
    right: "read",
    query: null,
    body: null,
    responses: { 200: { description: "The runtimes", schema: runtimeListSchema } },
    async handle() {
      return { status: 200, body: { data: services.runtimes(), nextCursor: null } };
    },
  });
}

function explainError(): Route {
  return route({
    method: "GET",
    path: "/errors/{code}",
    operationId: "explainError",
    summary: "What an error code means",
    right: null,
    query: null,
    body: null,
    responses: { 200: { description: "The code", schema: errorPageSchema } },
    async handle(call) {
      const code = call.params.code ?? "";
      if (!isErrorCode(code)) throw new PlatformError("not_found", "There is no error of this code.");
      const { title, status, fault, retryable } = ERROR_CODES[code];
      if (prefersPage(call.headers.accept)) {
        return { status: 200, body: errorPage(code), headers: { ...PAGE_HEADERS, vary: "accept" } };
      }
      return { status: 200, body: { code, title, status, fault, retryable }, headers: { vary: "accept" } };
    },
  });
}

function getHealth(): Route {
  return route({
    method: "GET",
    path: "/healthz",
    operationId: "getHealth",
    summary: "Whether the process lives",
    right: null,
    query: null,
    body: null,
    responses: { 200: { description: "It does", schema: healthSchema } },
    async handle() {
      return { status: 200, body: { status: "ok" } };
    },
  });
}

function getReadiness(services: ApiServices): Route {
  return route({
    method: "GET",
    path: "/readyz",
    operationId: "getReadiness",
    summary: "Whether the process can take messages",
    right: null,
    query: null,
    body: null,
    responses: {
      200: { description: "Ready", schema: readinessSchema },
      503: { description: "Not ready, and why", schema: readinessSchema },
    },
    async handle() {
      const problems = await services.unreadiness();
      const ready = problems.length === 0;
      return { status: ready ? 200 : 503, body: { status: ready ? "ready" : "not_ready", problems: [...problems] } };
    },
  });
}
