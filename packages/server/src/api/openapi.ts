/** The OpenAPI 3.1 document, generated from the same schemas that parse requests. */
import { EVENT_SCHEMAS, problemSchema } from "@signalbox/contract";
import { LIMITS } from "@signalbox/core";
import { z } from "zod";
import { createDocument, type ZodOpenApiOperationObject, type ZodOpenApiResponsesObject } from "zod-openapi";
import type { Route } from "./route.ts";

const KEY_HEADER = z.object({
  "Idempotency-Key": z.string().max(LIMITS.idempotencyKeyChars).optional().meta({
    description:
      "The same key with the same body is answered again as it was the first time, with `Idempotent-Replayed: true`.",
  }),
});
const PARAMETER = /\{([a-z]+)\}/g;

export function openApiDocument(routes: readonly Route[], version: string): unknown {
  const paths: Record<string, Record<string, ZodOpenApiOperationObject>> = {};
  for (const route of routes) {
    const operations = (paths[route.path] ??= {});
    operations[route.method.toLowerCase()] = operationOf(route);
  }
  return createDocument({
    openapi: "3.1.0",
    info: {
      title: "Signalbox",
      version,
      description: "Run AI agents inside products: one owner per conversation, governed effects, proof.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    security: [{ apiKey: [] }],
    paths,
    components: {
      securitySchemes: { apiKey: { type: "http", scheme: "bearer", description: "A key of the form sbx_…" } },
      schemas: Object.fromEntries(Object.values(EVENT_SCHEMAS).map((schema) => [String(schema.meta()?.id), schema])),
    },
  });
}

function operationOf(route: Route): ZodOpenApiOperationObject {
  const names = [...route.path.matchAll(PARAMETER)].map((match) => match[1] ?? "");
  const responses: ZodOpenApiResponsesObject = {
    default: { description: "A problem", content: { "application/problem+json": { schema: problemSchema } } },
  };
  for (const [status, response] of Object.entries(route.responses)) {
    const type = response.stream === true ? "text/event-stream" : "application/json";
    // The keys of `responses` are numbers; as keys of an object they have become text.
    responses[status as `${1 | 2 | 3 | 4 | 5}${string}`] = {
      description: response.description,
      ...(response.schema === null
        ? {}
        : {
            content: {
              [type]: { schema: response.schema },
              ...(response.document === undefined ? {} : { "application/json": { schema: response.document } }),
            },
          }),
    };
  }
  return {
    operationId: route.operationId,
    summary: route.summary,
    description: route.right === null ? "Needs no key." : `Needs a key with the right \`${route.right}\`.`,
    ...(route.right === null ? { security: [] } : {}),
    requestParams: {
      ...(names.length === 0 ? {} : { path: z.object(Object.fromEntries(names.map((name) => [name, z.string()]))) }),
      ...(route.query instanceof z.ZodObject ? { query: route.query } : {}),
      ...(route.method === "POST" ? { header: KEY_HEADER } : {}),
    },
    ...(route.body === null
      ? {}
      : { requestBody: { required: true, content: { "application/json": { schema: route.body } } } }),
    responses,
  };
}
