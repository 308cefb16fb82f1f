/** Holds: what runs wait for, and decisions about it. */
import {
  clientResultSchema,
  decidedHoldSchema,
  decisionSchema,
  HOLD_STATES,
  holdPageSchema,
  holdSchema,
  isId,
  pageQuerySchema,
  PlatformError,
  type DecideHold,
  type HoldId,
} from "@signalbox/contract";
import { z } from "zod";
import { authorised, demand } from "../caller.ts";
import { command, type CommandDesk } from "../command.ts";
import { broughtAlong } from "../decision-response.ts";
import { route, type Answer, type Route, type RouteCall } from "../route.ts";
import type { ApiServices } from "../services.ts";

const holdsQuerySchema = pageQuerySchema.extend({
  conversation: z.string().max(64).optional(),
  run: z.string().max(64).optional(),
  state: z.enum(HOLD_STATES).optional(),
});

export function holdRoutes(services: ApiServices): readonly Route[] {
  return [listHolds(services), getHold(services), decideHold(services), tellResult(services)];
}

function listHolds(services: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/holds",
    operationId: "listHolds",
    summary: "List what runs wait for, or waited for",
    right: "read",
    query: holdsQuerySchema,
    body: null,
    responses: { 200: { description: "A page of holds", schema: holdPageSchema } },
    async handle(call) {
      const { conversation = null, run = null, state = null, ...page } = call.query;
      const holds = await services.operatorView.holds(call.caller.scope, { ...page, conversation, run, state });
      return { status: 200, body: { data: [...holds.data], nextCursor: holds.nextCursor } };
    },
  });
}

function getHold(services: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/holds/{hold}",
    operationId: "getHold",
    summary: "Get a hold",
    right: "read",
    query: null,
    body: null,
    responses: { 200: { description: "The hold", schema: holdSchema } },
    async handle(call) {
      return { status: 200, body: await services.operatorView.hold(call.caller.scope, holdId(call.params.hold)) };
    },
  });
}

function decideHold(services: ApiServices): Route {
  return command(services, {
    path: "/v1/holds/{hold}/decision",
    operationId: "decideHold",
    summary: "Decide what a run waits for; the first decision stands and is the answer to every later one",
    right: "write",
    body: decisionSchema,
    responses: { 200: { description: "The hold as the first decision left it", schema: decidedHoldSchema } },
    act: decide,
  });
}

async function decide(desk: CommandDesk, call: RouteCall<DecideHold, null>): Promise<Answer> {
  const { caller, body } = call;
  const { decision, digest = null } = body;
  const id = holdId(call.params.hold);
  const asked = await desk.hold(caller.scope, id);
  const { kind } = asked;
  if (kind === "newer_worker") demand(caller, "operate");
  const response = await broughtAlong(desk, caller.scope, { hold: asked, decision, response: body.response });
  const change = await desk.decide({ ...authorised(caller), holdId: id, kind, decision, response, digest });
  const hold = await desk.hold(caller.scope, id);
  const outcome = change.kind === "already_decided" ? "already_decided" : "decided";
  return { status: 200, body: { outcome, hold } };
}

function tellResult(services: ApiServices): Route {
  return command(services, {
    path: "/v1/tool-calls/{call}/result",
    operationId: "tellResult",
    summary: "Tell what came of a call that a client has carried out; the first answer stands",
    right: "write",
    body: clientResultSchema,
    responses: { 200: { description: "The hold as the first answer left it", schema: decidedHoldSchema } },
    async act(desk, { caller, params, body }) {
      const call = params.call ?? "";
      if (!isId("toolCall", call)) throw new PlatformError("not_found");
      const id = await desk.clientHold(caller.scope, call);
      const answer = { kind: "client_tool", decision: "respond", response: body, digest: null } as const;
      const change = await desk.decide({ ...authorised(caller), holdId: id, ...answer });
      const outcome = change.kind === "already_decided" ? "already_decided" : "decided";
      return { status: 200, body: { outcome, hold: await desk.hold(caller.scope, id) } };
    },
  });
}

function holdId(text: string | undefined): HoldId {
  if (text === undefined || !isId("hold", text)) throw new PlatformError("not_found");
  return text;
}
