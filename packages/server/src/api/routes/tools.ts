/** Tools as they are pinned: what is listed, what changed, and what an operator decides about it. */
import {
  approveToolSchema,
  classifyToolSchema,
  mcpServerPageSchema,
  PlatformError,
  toolDetailSchema,
  toolPageSchema,
  toolSchema,
  toolsQuerySchema,
  type Tool,
} from "@signalbox/contract";
import type { Caller } from "../caller.ts";
import { answerOf, keyed } from "../keyed-command.ts";
import { route, type Route } from "../route.ts";
import type { ApiServices } from "../services.ts";

const TOOL = { 200: { description: "The tool", schema: toolSchema } };

export function toolRoutes(services: ApiServices): readonly Route[] {
  return [
    listTools(services),
    getTool(services),
    approveTool(services),
    classifyTool(services),
    listMcpServers(services),
  ];
}

function listTools({ tools }: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/tools",
    operationId: "listTools",
    summary: "List the tools of all servers by name, with what is pinned and what the operator says of each",
    right: "operate",
    query: toolsQuerySchema,
    body: null,
    responses: { 200: { description: "A page of tools", schema: toolPageSchema } },
    async handle({ caller, query }) {
      const page = await tools.tools(ofTenant(caller).scope, query);
      return { status: 200, body: { data: [...page.data], nextCursor: page.nextCursor } };
    },
  });
}

function getTool({ tools }: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/tools/{tool}",
    operationId: "getTool",
    summary: "Get a tool with its definition, what differs in what is listed now, and what became of it",
    right: "operate",
    query: null,
    body: null,
    responses: { 200: { description: "The tool", schema: toolDetailSchema } },
    handle: async ({ caller, params }) => ({
      status: 200,
      body: await tools.tool(ofTenant(caller).scope, nameOf(params.tool)),
    }),
  });
}

function approveTool({ tools, digest }: ApiServices): Route {
  return route({
    method: "POST",
    path: "/v1/tools/{tool}/approve",
    operationId: "approveTool",
    summary:
      "Approve a tool in the form and at the address that was shown; from within two seconds on it may be called",
    right: "operate",
    query: null,
    body: approveToolSchema,
    responses: TOOL,
    async handle(call) {
      const { scope, actor } = ofTenant(call.caller);
      const command = { name: nameOf(call.params.tool), digest: call.body.digest, actor };
      return answerOf(await tools.approve(scope, command, keyed<Tool>(call, { route: "approveTool", digest })));
    },
  });
}

function classifyTool({ tools, digest }: ApiServices): Route {
  return route({
    method: "POST",
    path: "/v1/tools/{tool}/classify",
    operationId: "classifyTool",
    summary: "Say what a tool does and when a person is asked; what is left out stays",
    right: "operate",
    query: null,
    body: classifyToolSchema,
    responses: TOOL,
    async handle(call) {
      const { scope, actor } = ofTenant(call.caller);
      const command = { name: nameOf(call.params.tool), change: call.body, actor };
      return answerOf(await tools.classify(scope, command, keyed<Tool>(call, { route: "classifyTool", digest })));
    },
  });
}

function listMcpServers({ tools }: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/mcp-servers",
    operationId: "listMcpServers",
    summary: "List the tool servers, and how each was found the last time",
    right: "operate",
    query: null,
    body: null,
    responses: { 200: { description: "All tool servers", schema: mcpServerPageSchema } },
    handle: async ({ caller }) => ({
      status: 200,
      body: { data: [...(await tools.servers(ofTenant(caller).scope))], nextCursor: null },
    }),
  });
}

/** A tool is offered to every end user of a tenant, so a key that speaks for one of them decides nothing about it. */
function ofTenant(caller: Caller): Pick<Caller, "scope" | "actor"> {
  if (caller.scope.user === null) return caller;
  throw new PlatformError("permission_denied", "A key that speaks for an end user has nothing to do with tools.");
}

function nameOf(name: string | undefined): string {
  if (name === undefined) throw new PlatformError("not_found");
  return name;
}
