/** What operators ask of one run, and what the record owes. */
import {
  acceptedMessageSchema,
  explanationSchema,
  forceSchema,
  OBLIGATION_KINDS,
  obligationListSchema,
  runSchema,
  type Force,
} from "@signalbox/contract";
import { z } from "zod";
import { authorised } from "../caller.ts";
import { command } from "../command.ts";
import { postKey } from "../idempotency.ts";
import { route, type Answer, type Route, type RouteCall } from "../route.ts";
import type { ApiServices } from "../services.ts";
import { acknowledgedRun, eventsUrl, showRun } from "../shapes.ts";
import { agentOf } from "./messages.ts";
import { runId } from "./runs.ts";

const OBLIGATION_COUNT = 500;
/** An obligation that is older than this is worth somebody's attention. */
const OVERDUE_MS = 60_000;
const obligationsQuerySchema = z.strictObject({
  olderThanMs: z
    .string()
    .regex(/^[0-9]{1,12}$/, "must be a whole number of milliseconds")
    .transform(Number)
    .default(0),
});
const RUN = { 200: { description: "The run", schema: runSchema } };

export function operatorRoutes(services: ApiServices): readonly Route[] {
  return [
    retryRun(services),
    failRun(services),
    releaseRun(services),
    explainRun(services),
    listObligations(services),
    getMetrics(services),
  ];
}

function retryRun(services: ApiServices): Route {
  return route({
    method: "POST",
    path: "/v1/runs/{run}/retry",
    operationId: "retryRun",
    summary: "Answer the message of a run that failed or was cancelled again, as a new message and run",
    right: "operate",
    query: null,
    body: forceSchema,
    responses: { 202: { description: "Accepted: it will be answered again", schema: acceptedMessageSchema } },
    handle: (call) => retry(services, call),
  });
}

async function retry(services: ApiServices, call: RouteCall<Force, null>): Promise<Answer> {
  const { scope, actor } = call.caller;
  const id = runId(call.params.run);
  const header = call.headers["idempotency-key"];
  const { conversationId, text, metadata } = await services.operatorView.said(scope, id);
  const idempotency = postKey({
    header,
    route: `retryRun ${id}`,
    body: call.given,
    scope,
    digest: services.digest,
  });
  const admission = await services.admission.submit({
    tenantId: scope.tenantId,
    conversationId,
    actor,
    agent: await agentOf(services, scope, conversationId),
    text,
    metadata,
    // It repeats what was said; whatever the agent's messages do to a run that is active, it ends none.
    asked: { whenBusy: "enqueue" },
    retry: { runId: id, force: call.body.force },
    traceId: call.traceId,
    idempotency,
  });
  const { accepted, messageId, runId: newId, cursor } = admission;
  const shown = await services.record.accepted(scope, { messageId, runId: newId });
  const run = acknowledgedRun(shown.run, accepted);
  return {
    status: 202,
    body: { message: shown.message, run, accepted, eventsUrl: eventsUrl(conversationId, cursor) },
    headers: {
      location: `/v1/runs/${newId}`,
      ...(admission.kind === "replayed" ? { "idempotent-replayed": "true" } : {}),
    },
  };
}

function failRun(services: ApiServices): Route {
  return command(services, {
    path: "/v1/runs/{run}/fail",
    operationId: "failRun",
    summary: "End a run that is stuck, whatever has become of its owner, and let the next one begin",
    right: "operate",
    body: forceSchema,
    responses: RUN,
    async act(desk, { caller, params, body }) {
      const id = runId(params.run);
      await desk.fail({ ...authorised(caller), runId: id, force: body.force });
      return { status: 200, body: showRun(await desk.run(caller.scope, id)) };
    },
  });
}

function releaseRun(services: ApiServices): Route {
  return command(services, {
    path: "/v1/runs/{run}/release",
    operationId: "releaseRun",
    summary: "Take a run away from its owner, so that another one claims it",
    right: "operate",
    body: null,
    responses: RUN,
    async act(desk, { caller, params }) {
      const id = runId(params.run);
      await desk.release({ ...authorised(caller), runId: id });
      return { status: 200, body: showRun(await desk.run(caller.scope, id)) };
    },
  });
}

function explainRun(services: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/runs/{run}/explain",
    operationId: "explainRun",
    summary: "Why a run does not move, and what happens next",
    right: "operate",
    query: null,
    body: null,
    responses: { 200: { description: "A sentence, and the facts behind it", schema: explanationSchema } },
    async handle(call) {
      const { scope } = call.caller;
      return { status: 200, body: await services.operatorView.explanation(scope, runId(call.params.run)) };
    },
  });
}

function listObligations(services: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/obligations",
    operationId: "listObligations",
    summary: `What was recorded and is not confirmed, oldest first, at most ${OBLIGATION_COUNT}`,
    right: "operate",
    query: obligationsQuerySchema,
    body: null,
    responses: { 200: { description: "The obligations", schema: obligationListSchema } },
    async handle(call) {
      const which = { olderThanMs: call.query.olderThanMs, limit: OBLIGATION_COUNT };
      const data = await services.operatorView.obligations(call.caller.scope, which);
      return { status: 200, body: { data: [...data], nextCursor: null } };
    },
  });
}

function getMetrics(services: ApiServices): Route {
  return route({
    method: "GET",
    path: "/metrics",
    operationId: "getMetrics",
    summary: "What the platform owes to the tenant of the key, in the text format of Prometheus",
    right: "operate",
    query: null,
    body: null,
    responses: { 200: { description: "Metrics as text", schema: null } },
    async handle(call) {
      const counts = await services.operatorView.obligationCounts(call.caller.scope, OVERDUE_MS);
      const name = "signalbox_obligations_overdue";
      const lines = OBLIGATION_KINDS.map((kind) => `${name}{kind="${kind}"} ${counts.get(kind) ?? 0}`);
      const help = `# HELP ${name} Recorded and not confirmed for more than ${OVERDUE_MS / 1_000} s.`;
      return {
        status: 200,
        body: `${[help, `# TYPE ${name} gauge`, ...lines].join("\n")}\n`,
        headers: { "content-type": "text/plain; version=0.0.4; charset=utf-8" },
      };
    },
  });
}
