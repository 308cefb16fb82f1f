/** Agents: created once with everything they need checked, then frozen into each run's snapshot. */
import {
  agentPageSchema,
  agentSchema,
  createAgentSchema,
  pageQuerySchema,
  PlatformError,
  type CreateAgent,
  type SnapshotTool,
} from "@signalbox/contract";
import type { Scope, StoredAgent } from "../api-record.ts";
import { createOnce, postKey } from "../idempotency.ts";
import { route, type Route } from "../route.ts";
import type { ApiServices } from "../services.ts";
import { showAgent } from "../shapes.ts";

export function agentRoutes(services: ApiServices): readonly Route[] {
  return [
    route({
      method: "POST",
      path: "/v1/agents",
      operationId: "createAgent",
      summary: "Create an agent",
      right: "agents",
      query: null,
      body: createAgentSchema,
      responses: { 201: { description: "The agent", schema: agentSchema } },
      async handle(call) {
        checkRuntime(services, call.body.runtime);
        checkModel(services, call.body);
        await pinnedTools(services, call.caller.scope, call.body.tools);
        const key = postKey({
          header: call.headers["idempotency-key"],
          route: "createAgent",
          body: call.body,
          digest: services.digest,
        });
        const agent = { id: services.newAgentId(), actor: call.caller.actor, definition: call.body };
        return createOnce<StoredAgent>(key, {
          create: (once) => services.record.createAgent(call.caller.scope, agent, once),
          show: (created) => showAgent(created),
          location: (created) => `/v1/agents/${created.id}`,
        });
      },
    }),
    route({
      method: "GET",
      path: "/v1/agents",
      operationId: "listAgents",
      summary: "List agents",
      right: "read",
      query: pageQuerySchema,
      body: null,
      responses: { 200: { description: "A page of agents", schema: agentPageSchema } },
      async handle(call) {
        const page = await services.record.agents(call.caller.scope, call.query);
        return { status: 200, body: { data: page.data.map((agent) => showAgent(agent)), nextCursor: page.nextCursor } };
      },
    }),
    route({
      method: "GET",
      path: "/v1/agents/{agent}",
      operationId: "getAgent",
      summary: "Get an agent by id or name",
      right: "read",
      query: null,
      body: null,
      responses: { 200: { description: "The agent", schema: agentSchema } },
      async handle(call) {
        return {
          status: 200,
          body: showAgent(await services.record.agent(call.caller.scope, call.params.agent ?? "")),
        };
      },
    }),
  ];
}

function checkRuntime(services: ApiServices, runtime: string): void {
  const offered = services.runtimes();
  const found = offered.find((each) => each.name === runtime);
  const field = [{ pointer: "/runtime", detail: "not offered by a connected worker" }];
  if (found === undefined) {
    const names = offered.map((each) => each.name).join(", ");
    throw new PlatformError(
      "runtime_unknown",
      `No connected worker offers the runtime "${runtime}". ${names === "" ? "No worker is connected." : `Offered are: ${names}.`}`,
      { fields: field },
    );
  }
  if (!found.available) {
    throw new PlatformError(
      runtime === "claude_sdk" ? "SDK_UNAVAILABLE" : "runtime_constraint",
      found.problem ?? undefined,
      { fields: field },
    );
  }
}

function checkModel(services: ApiServices, agent: CreateAgent): void {
  const provider = agent.model.slice(0, agent.model.indexOf("/"));
  const known = services.providers().map((each) => each.name);
  if (!known.includes(provider)) {
    throw new PlatformError(
      "model_unknown",
      `No provider "${provider}" is configured. Configured are: ${known.join(", ") || "none"}.`,
      {
        fields: [{ pointer: "/model", detail: "the part before / must name a configured provider" }],
      },
    );
  }
}

/** The agent's tools as they are pinned today, sorted by wire name. Errors: `tool_unknown`, naming each. */
export async function pinnedTools(
  services: ApiServices,
  scope: Scope,
  references: readonly string[],
): Promise<readonly SnapshotTool[]> {
  const pinned = await services.record.tools(scope, references);
  const found = new Map(pinned.map((tool) => [tool.reference, tool]));
  const missing = references.filter((reference) => !found.has(reference));
  if (missing.length > 0) {
    throw new PlatformError("tool_unknown", `There is no tool ${missing.join(", ")}. Tools are named server/tool.`, {
      fields: missing.map((reference) => ({
        pointer: `/tools/${references.indexOf(reference)}`,
        detail: `no tool ${reference}`,
      })),
    });
  }
  return [...found.values()]
    .map(({ reference: _, ...tool }) => tool)
    .sort((left, right) => (left.name < right.name ? -1 : 1));
}
