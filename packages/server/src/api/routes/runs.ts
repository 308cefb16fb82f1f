/** Runs: listing, reading, and asking for their end. */
import { isId, pageQuerySchema, PlatformError, runPageSchema, runSchema, type RunId } from "@signalbox/contract";
import { z } from "zod";
import type { Page, StoredRun } from "../api-record.ts";
import { command } from "../command.ts";
import { route, type Answer, type Route } from "../route.ts";
import type { ApiServices } from "../services.ts";
import { showRun } from "../shapes.ts";
import { conversationId } from "./conversations.ts";

const runsQuerySchema = pageQuerySchema.extend({ conversation: z.string().max(64).optional() });
const PAGE = { 200: { description: "A page of runs", schema: runPageSchema } };

export function runRoutes(services: ApiServices): readonly Route[] {
  return [listRuns(services), listConversationRuns(services), getRun(services), cancelRun(services)];
}

function listRuns(services: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/runs",
    operationId: "listRuns",
    summary: "List runs, of one conversation or of all",
    right: "read",
    query: runsQuerySchema,
    body: null,
    responses: PAGE,
    async handle(call) {
      const { conversation, ...query } = call.query;
      const id = conversation === undefined ? null : conversationId(conversation);
      return pageOf(await services.record.runs(call.caller.scope, { ...query, conversation: id }));
    },
  });
}

function listConversationRuns(services: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/conversations/{conversation}/runs",
    operationId: "listConversationRuns",
    summary: "List the runs of a conversation",
    right: "read",
    query: pageQuerySchema,
    body: null,
    responses: PAGE,
    async handle(call) {
      const id = conversationId(call.params.conversation);
      // Without this, the runs of a conversation that does not exist would be an empty page.
      await services.record.conversation(call.caller.scope, id);
      return pageOf(await services.record.runs(call.caller.scope, { ...call.query, conversation: id }));
    },
  });
}

function getRun(services: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/runs/{run}",
    operationId: "getRun",
    summary: "Get a run",
    right: "read",
    query: null,
    body: null,
    responses: { 200: { description: "The run", schema: runSchema } },
    async handle(call) {
      return { status: 200, body: showRun(await services.record.run(call.caller.scope, runId(call.params.run))) };
    },
  });
}

function cancelRun(services: ApiServices): Route {
  return command(services, {
    path: "/v1/runs/{run}/cancel",
    operationId: "cancelRun",
    summary: "Ask for the end of a run; one that has ended, or is beyond a cancel, stays as it is",
    right: "write",
    body: null,
    responses: {
      200: {
        description: "The run as it is: it has ended, or another run has taken its message in and will end it",
        schema: runSchema,
      },
      202: {
        description:
          "It is being ended and nothing new is authorised for it: by a cancel, as `cancelRequestedAt` shows, or, where " +
          "that is null, by an end that was being decided before",
        schema: runSchema,
      },
    },
    async act(desk, call) {
      const { scope, actor } = call.caller;
      const id = runId(call.params.run);
      // A run that the caller may not see does not exist for them, so it is looked up before it is touched.
      await desk.run(scope, id);
      const outcome = await desk.cancel({ tenantId: scope.tenantId, actor, runId: id });
      const run = showRun(await desk.run(scope, id));
      const isBeingEnded =
        outcome.kind === "requested" || (outcome.kind === "ending" && outcome.state === "finalizing");
      // It may have ended before it was looked at: the status is that of the run that is shown.
      return { status: isBeingEnded && run.finishedAt === null ? 202 : 200, body: run };
    },
  });
}

function pageOf(page: Page<StoredRun>): Answer {
  return { status: 200, body: { data: page.data.map(showRun), nextCursor: page.nextCursor } };
}

export function runId(text: string | undefined): RunId {
  if (text === undefined || !isId("run", text)) throw new PlatformError("not_found");
  return text;
}
