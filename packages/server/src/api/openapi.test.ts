import { EVENT_SCHEMAS } from "@signalbox/contract";
import { expect, it } from "vitest";
import { z } from "zod";
import { openApiDocument } from "./openapi.ts";
import { route } from "./route.ts";

const thing = z.object({ id: z.string() }).meta({ id: "Thing" });
const routes = [
  route({
    method: "GET",
    path: "/v1/things/{thing}",
    operationId: "getThing",
    summary: "Get a thing",
    right: "read",
    query: z.strictObject({ deep: z.enum(["true", "false"]).default("false") }),
    body: null,
    responses: { 200: { description: "The thing", schema: thing } },
    handle: async () => ({ status: 200, body: {} }),
  }),
  route({
    method: "POST",
    path: "/v1/things",
    operationId: "createThing",
    summary: "Create a thing",
    right: null,
    query: null,
    body: z.strictObject({ name: z.string() }).meta({ id: "CreateThing" }),
    responses: { 200: { description: "Events", schema: thing, stream: true } },
    handle: async () => ({ status: 200, body: {} }),
  }),
];

it("describes a route by what it is mounted from", () => {
  expect(openApiDocument(routes, "1.2.3")).toMatchObject({
    openapi: "3.1.0",
    info: { version: "1.2.3" },
    security: [{ apiKey: [] }],
    paths: {
      "/v1/things/{thing}": {
        get: {
          operationId: "getThing",
          parameters: [
            { in: "path", name: "thing", required: true },
            { in: "query", name: "deep", schema: { enum: ["true", "false"], default: "false" } },
          ],
          responses: {
            200: { content: { "application/json": { schema: { $ref: "#/components/schemas/Thing" } } } },
            default: { content: { "application/problem+json": { schema: { $ref: "#/components/schemas/Problem" } } } },
          },
        },
      },
      "/v1/things": {
        post: {
          security: [],
          requestBody: { required: true },
          responses: { 200: { content: { "text/event-stream": {} } } },
        },
      },
    },
  });
});

it("names every event, and refers to nothing it does not have", () => {
  const document = openApiDocument(routes, "1.2.3") as { components: { schemas: Record<string, unknown> } };
  for (const schema of Object.values(EVENT_SCHEMAS)) {
    expect(document.components.schemas).toHaveProperty([String(schema.meta()?.id)]);
  }
  const references = [...JSON.stringify(document).matchAll(/"#\/components\/schemas\/(\w+)"/g)].map(
    (match) => match[1],
  );
  expect(references.length).toBeGreaterThan(0);
  for (const name of references) expect(Object.keys(document.components.schemas)).toContain(name);
});
