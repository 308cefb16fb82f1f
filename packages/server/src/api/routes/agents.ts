/** Agents: created once with everything they need checked, then frozen into each run's snapshot. */
import {
  AGENT_NAME,
  agentPageSchema,
  agentRevisionPageSchema,
  agentSchema,
  createAgentSchema,
  isId,
  pageQuerySchema,
  PlatformError,
  updateAgentSchema,
  type CreateAgent,
  type UpdateAgent,
} from "@signalbox/contract";
import type { Scope, StoredAgent } from "../api-record.ts";
import { createOnce, postKey, replay } from "../idempotency.ts";
import { demandTools } from "../pinned-tools.ts";
import { route, type Answer, type Route, type RouteCall } from "../route.ts";
import type { ApiServices } from "../services.ts";
import { showAgent } from "../shapes.ts";

export function agentRoutes(services: ApiServices): readonly Route[] {
  return [
    createAgent(services),
    listAgents(services),
    getAgent(services),
    updateAgent(services),
    listRevisions(services),
  ];
}

function createAgent(services: ApiServices): Route {
  return route({
    method: "POST",
    path: "/v1/agents",
    operationId: "createAgent",
    summary: "Create an agent",
    right: "agents",
    query: null,
    body: createAgentSchema,
    responses: { 201: { description: "The agent", schema: agentSchema } },
    handle: (call) => create(services, call),
  });
}

async function create(services: ApiServices, call: RouteCall<CreateAgent, null>): Promise<Answer> {
  const { scope, actor } = call.caller;
  const header = call.headers["idempotency-key"];
  const key = postKey({ header, route: "createAgent", body: call.given, scope, digest: services.digest });
  const addressOf = (id: string): string => `/v1/agents/${id}`;
  try {
    await checkAgent(services, scope, call.body);
  } catch (thrown) {
    // What was created while a worker or a tool was there is answered again also when it is gone.
    const before = key === null ? null : await services.record.answered(scope, key);
    if (before === null) throw thrown;
    return replay(before, addressOf);
  }
  const agent = { id: services.newAgentId(), actor, definition: call.body };
  return createOnce<StoredAgent>(key, {
    create: (once) => services.record.createAgent(scope, agent, once),
    show: showAgent,
    addressOf,
  });
}

function listAgents(services: ApiServices): Route {
  return route({
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
      return { status: 200, body: { data: page.data.map(showAgent), nextCursor: page.nextCursor } };
    },
  });
}

function getAgent(services: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/agents/{agent}",
    operationId: "getAgent",
    summary: "Get an agent by id or name",
    right: "read",
    query: null,
    body: null,
    responses: { 200: { description: "The agent", schema: agentSchema } },
    async handle(call) {
      return answerOf(await services.record.agent(call.caller.scope, agentName(call.params.agent)));
    },
  });
}

function updateAgent(services: ApiServices): Route {
  return route({
    method: "PATCH",
    path: "/v1/agents/{agent}",
    operationId: "updateAgent",
    summary: "Change an agent: a new revision for new messages, or whether it takes any",
    right: "agents",
    query: null,
    body: updateAgentSchema,
    responses: { 200: { description: "The agent as it is now", schema: agentSchema } },
    handle: (call) => update(services, call),
  });
}

async function update(services: ApiServices, call: RouteCall<UpdateAgent, null>): Promise<Answer> {
  const { scope, actor } = call.caller;
  const agent = await services.record.agent(scope, agentName(call.params.agent));
  const revision = revisionNamed(call.headers["if-match"], call.body.revision);
  const { runtime, model, tools } = call.body;
  // Only what changes is checked: an agent can be mended, or disabled, also while its worker is away.
  if (runtime !== undefined && runtime !== agent.runtime) checkRuntime(services, runtime);
  if (model !== undefined && model !== agent.model) checkModel(services, model);
  const held = new Set(agent.tools.map(({ reference }) => reference));
  const added = (tools ?? []).filter((reference) => !held.has(reference));
  if (added.length > 0) demandTools(added, await services.record.tools(scope, added));
  const change = { ...call.body, ...(revision === undefined ? {} : { revision }) };
  return answerOf(await services.record.changeAgent(scope, { id: agent.id, actor, change }));
}

/** `If-Match` and `revision` say the same thing; whoever gives both must mean one. */
function revisionNamed(ifMatch: string | undefined, field: number | undefined): number | undefined {
  if (ifMatch === undefined || ifMatch.trim() === "*") return field;
  const number = /^"([1-9][0-9]{0,8})"$/.exec(ifMatch.trim())?.[1];
  if (number === undefined || (field !== undefined && field !== Number(number))) {
    throw new PlatformError("revision_changed", `If-Match takes one revision in quotes, such as "3".`, {
      fields: [{ pointer: "If-Match", detail: "names no revision of this agent" }],
    });
  }
  return Number(number);
}

function listRevisions(services: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/agents/{agent}/revisions",
    operationId: "listAgentRevisions",
    summary: "List the revisions of an agent",
    right: "read",
    query: pageQuerySchema,
    body: null,
    responses: { 200: { description: "A page of revisions", schema: agentRevisionPageSchema } },
    async handle(call) {
      const { scope } = call.caller;
      const { id } = await services.record.agent(scope, agentName(call.params.agent));
      return { status: 200, body: await services.record.revisions(scope, id, call.query) };
    },
  });
}

function answerOf(agent: StoredAgent): Answer {
  return { status: 200, body: showAgent(agent), headers: { etag: `"${agent.revision}"` } };
}

function agentName(name = ""): string {
  if (!isId("agent", name) && !AGENT_NAME.test(name)) throw new PlatformError("not_found");
  return name;
}

/** Errors: `runtime_unknown`, `SDK_UNAVAILABLE`, `runtime_constraint`, `model_unknown`, `tool_unknown`. */
async function checkAgent(services: ApiServices, scope: Scope, agent: CreateAgent): Promise<void> {
  checkRuntime(services, agent.runtime);
  checkModel(services, agent.model);
  if (agent.tools.length > 0) demandTools(agent.tools, await services.record.tools(scope, agent.tools));
}

function checkRuntime(services: ApiServices, runtime: string): void {
  const offered = services.runtimes();
  const found = offered.find((each) => each.name === runtime);
  const fields = [{ pointer: "/runtime", detail: "not offered by a connected worker" }];
  if (found === undefined) {
    const names = offered.map((each) => each.name).join(", ");
    const others = names === "" ? "No worker is connected." : `Offered are: ${names}.`;
    const detail = `No connected worker offers the runtime "${runtime}". ${others}`;
    throw new PlatformError("runtime_unknown", detail, { fields });
  }
  if (!found.available) {
    const code = runtime === "claude_sdk" ? "SDK_UNAVAILABLE" : "runtime_constraint";
    throw new PlatformError(code, found.problem ?? undefined, { fields });
  }
}

function checkModel(services: ApiServices, model: string): void {
  const provider = model.slice(0, model.indexOf("/"));
  const known = services.providers().map((each) => each.name);
  if (!known.includes(provider)) {
    const detail = `No provider "${provider}" is configured. Configured are: ${known.join(", ") || "none"}.`;
    throw new PlatformError("model_unknown", detail, {
      fields: [{ pointer: "/model", detail: "the part before / must name a configured provider" }],
    });
  }
}
