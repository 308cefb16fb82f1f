/** Approvals: the holds of calls that somebody is asked about, with everything there is to know before deciding. */
import {
  approvalPageSchema,
  approvalSchema,
  decideApprovalSchema,
  decidedApprovalSchema,
  HOLD_STATES,
  isId,
  pageQuerySchema,
  PlatformError,
  type Approval,
  type DecideApproval,
  type EffectClass,
  type Hold,
  type HoldId,
} from "@signalbox/contract";
import { z } from "zod";
import { authorised } from "../caller.ts";
import { command, type CommandDesk } from "../command.ts";
import { broughtAlong } from "../decision-response.ts";
import { route, type Answer, type Route, type RouteCall } from "../route.ts";
import type { ApiServices } from "../services.ts";

const approvalsQuerySchema = pageQuerySchema.extend({
  conversation: z.string().max(64).optional(),
  run: z.string().max(64).optional(),
  state: z.enum(HOLD_STATES).optional(),
});

export function approvalRoutes(services: ApiServices): readonly Route[] {
  return [listApprovals(services), getApproval(services), decideApproval(services)];
}

function listApprovals(services: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/approvals",
    operationId: "listApprovals",
    summary: "List calls that somebody is asked about, or was",
    right: "read",
    query: approvalsQuerySchema,
    body: null,
    responses: { 200: { description: "A page of approvals", schema: approvalPageSchema } },
    async handle(call) {
      const { conversation = null, run = null, state = null, ...page } = call.query;
      const filter = { ...page, conversation, run, state, kind: "approval" } as const;
      const holds = await services.operatorView.holds(call.caller.scope, filter);
      return { status: 200, body: { data: holds.data.map(approvalOf), nextCursor: holds.nextCursor } };
    },
  });
}

function getApproval(services: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/approvals/{approval}",
    operationId: "getApproval",
    summary: "Get an approval",
    right: "read",
    query: null,
    body: null,
    responses: { 200: { description: "The approval", schema: approvalSchema } },
    async handle(call) {
      const hold = await services.operatorView.hold(call.caller.scope, approvalId(call.params.approval));
      return { status: 200, body: approvalOf(onlyApproval(hold)) };
    },
  });
}

function decideApproval(services: ApiServices): Route {
  return command(services, {
    path: "/v1/approvals/{approval}/decision",
    operationId: "decideApproval",
    summary: "Decide whether a call is made; the first decision stands and is the answer to every later one",
    right: "write",
    body: decideApprovalSchema,
    responses: { 200: { description: "The approval as the first decision left it", schema: decidedApprovalSchema } },
    act: decide,
  });
}

async function decide(desk: CommandDesk, call: RouteCall<DecideApproval, null>): Promise<Answer> {
  const { caller, body } = call;
  const { decision, digest } = body;
  const holdId = approvalId(call.params.approval);
  const hold = onlyApproval(await desk.hold(caller.scope, holdId));
  const response = await broughtAlong(desk, caller.scope, { hold, decision, response: givenFor(body) });
  const change = await desk.decide({ ...authorised(caller), holdId, kind: hold.kind, decision, response, digest });
  const approval = approvalOf(await desk.hold(caller.scope, holdId));
  return { status: 200, body: { outcome: change.kind === "already_decided" ? change.kind : "decided", approval } };
}

/** Which field each verb brings along. What another verb would have read is refused, and not passed over. */
const FIELD = { approve: null, reject: "reason", edit: "arguments", respond: "response" } as const;

/** As the same decision is written at the address of its hold. */
function givenFor(body: DecideApproval): unknown {
  const { decision, reason, response } = body;
  const field = FIELD[decision];
  const stray = (["reason", "arguments", "response"] as const).find(
    (each) => each !== field && body[each] !== undefined,
  );
  if (stray !== undefined) {
    const fields = [{ pointer: `/${stray}`, detail: `is nothing that ${decision} brings along` }];
    throw new PlatformError("invalid_request", `The decision ${decision} brings no ${stray} along.`, { fields });
  }
  if (decision === "reject") return reason === undefined ? null : { reason };
  if (decision === "edit") return body.arguments === undefined ? null : { arguments: body.arguments };
  return response ?? null;
}

function approvalId(text: string | undefined): HoldId {
  if (text === undefined || !isId("hold", text)) throw new PlatformError("not_found");
  return text;
}

function onlyApproval(hold: Hold): Hold {
  if (hold.kind !== "approval") throw new PlatformError("not_found");
  return hold;
}

const EFFECTS: readonly unknown[] = ["read", "egress_read", "write", "irreversible"] satisfies EffectClass[];

/** A hold's subject is read member by member: what was asked under an earlier release may say less. */
function approvalOf(given: Hold): Approval {
  const { id, conversationId, runId, gatewayCallId, subject, digest, state } = given;
  const { decision, response, decidedBy, openedAt, expiresAt, decidedAt } = given;
  const text = (member: string): string | null => {
    const value = subject[member];
    return typeof value === "string" ? value : null;
  };
  const list = (member: string): readonly unknown[] => {
    const value = subject[member];
    return Array.isArray(value) ? value : [];
  };
  const { effect, agentRevision } = subject;
  const name = text("name") ?? text("tool") ?? "";
  const argumentsJson = text("argumentsJson");
  return {
    id,
    conversationId,
    runId,
    gatewayCallId,
    digest,
    state,
    decision,
    response,
    decidedBy,
    openedAt,
    expiresAt,
    decidedAt,
    toolCallId: text("toolCallId"),
    name,
    server: text("server"),
    tool: text("tool"),
    title: text("title") ?? name,
    // Of the list just above, or what an unknown effect counts as.
    effect: EFFECTS.includes(effect) ? (effect as EffectClass) : "irreversible",
    grade: text("grade") ?? "contained",
    arguments: argumentsJson === null ? null : (JSON.parse(argumentsJson) as unknown),
    definitionHash: text("definitionHash"),
    reason: text("reason"),
    rules: list("rules").map(String),
    origins: [...list("origins")],
    approver: subject.approver === "other" ? "other" : "anyone",
    agentRevision: typeof agentRevision === "number" ? agentRevision : null,
    policyVersion: text("policyVersion"),
  };
}
