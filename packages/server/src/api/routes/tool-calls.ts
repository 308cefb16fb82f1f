/** Calls of tools as the ledger has them, and outcomes that a person settles. */
import {
  isId,
  PlatformError,
  reconcileSchema,
  toolCallSchema,
  type ReconcileToolCall,
  type ToolCallId,
} from "@signalbox/contract";
import { authorised } from "../caller.ts";
import { command, type CommandDesk } from "../command.ts";
import { route, type Answer, type Route, type RouteCall } from "../route.ts";
import type { ApiServices } from "../services.ts";

export function toolCallRoutes(services: ApiServices): readonly Route[] {
  return [getToolCall(services), reconcileToolCall(services)];
}

function getToolCall(services: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/tool-calls/{call}",
    operationId: "getToolCall",
    summary: "Get a call of a tool: what was proposed, judged, approved and carried out, and what it came to",
    right: "read",
    query: null,
    body: null,
    responses: { 200: { description: "The call", schema: toolCallSchema } },
    async handle(call) {
      return {
        status: 200,
        body: await services.operatorView.toolCall(call.caller.scope, toolCallId(call.params.call)),
      };
    },
  });
}

function reconcileToolCall(services: ApiServices): Route {
  return command(services, {
    path: "/v1/tool-calls/{call}/reconcile",
    operationId: "reconcileToolCall",
    summary: "Settle the outcome of a call that nobody knows, after having looked",
    right: "operate",
    body: reconcileSchema,
    responses: { 200: { description: "The call as it is now", schema: toolCallSchema } },
    act: reconcile,
  });
}

async function reconcile(desk: CommandDesk, call: RouteCall<ReconcileToolCall, null>): Promise<Answer> {
  const { caller, body } = call;
  const { outcome, result, note = null } = body;
  const id = toolCallId(call.params.call);
  const content = [{ type: "text", text: result }];
  const resultJson = result === undefined ? null : JSON.stringify({ content, isError: outcome !== "succeeded" });
  await desk.reconcile({ ...authorised(caller), toolCallId: id, outcome, resultJson, note });
  return { status: 200, body: await desk.toolCall(caller.scope, id) };
}

function toolCallId(text: string | undefined): ToolCallId {
  if (text === undefined || !isId("toolCall", text)) throw new PlatformError("not_found");
  return text;
}
