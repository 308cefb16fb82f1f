/** Pauses and stops of operators, at any scope. */
import {
  createStopSchema,
  isId,
  isTerminal,
  pageQuerySchema,
  PlatformError,
  RUN_STATES,
  runSchema,
  stopPageSchema,
  stopSchema,
  type CreateStop,
  type StopId,
} from "@signalbox/contract";
import { z } from "zod";
import { route, type Answer, type Route, type RouteCall } from "../route.ts";
import type { ApiServices } from "../services.ts";
import { showRun } from "../shapes.ts";
import { runId } from "./runs.ts";

const stopsQuerySchema = pageQuerySchema.extend({ standing: z.enum(["true", "false"]).default("true") });
const RUN = { 200: { description: "The run", schema: runSchema } };

export function stopRoutes(services: ApiServices): readonly Route[] {
  return [
    createStop(services),
    listStops(services),
    getStop(services),
    liftStop(services),
    pauseRun(services),
    resumeRun(services),
  ];
}

function createStop(services: ApiServices): Route {
  return route({
    method: "POST",
    path: "/v1/stops",
    operationId: "createStop",
    summary: "Pause or stop a run, a conversation, an agent or the tenant; what stands already is answered as it is",
    right: "operate",
    query: null,
    body: createStopSchema,
    responses: {
      200: { description: "It stood already", schema: stopSchema },
      201: { description: "It stands", schema: stopSchema },
    },
    handle: (call) => create(services, call),
  });
}

async function create(services: ApiServices, call: RouteCall<CreateStop, null>): Promise<Answer> {
  const { scope, actor } = call.caller;
  const { kind, scope: reach, id, reason } = call.body;
  if ((id === undefined) !== (reach === "tenant")) {
    const detail = reach === "tenant" ? "A tenant is stopped without an id." : `A ${reach} is named by its id.`;
    throw new PlatformError("invalid_request", detail, { fields: [{ pointer: "/id", detail }] });
  }
  const stop = await services.operators.stop({
    tenantId: scope.tenantId,
    actor,
    stopId: services.newStopId(),
    kind,
    scope: reach,
    subject: id ?? null,
    reason,
  });
  return {
    status: stop.created ? 201 : 200,
    body: await services.operatorView.stop(scope, stop.stopId),
    headers: { location: `/v1/stops/${stop.stopId}` },
  };
}

function listStops(services: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/stops",
    operationId: "listStops",
    summary: "List pauses and stops: those that stand, or all",
    right: "operate",
    query: stopsQuerySchema,
    body: null,
    responses: { 200: { description: "A page of pauses and stops", schema: stopPageSchema } },
    async handle(call) {
      const { standing, ...page } = call.query;
      const query = { ...page, standing: standing === "true", about: null };
      const stops = await services.operatorView.stops(call.caller.scope, query);
      return { status: 200, body: { data: [...stops.data], nextCursor: stops.nextCursor } };
    },
  });
}

function getStop(services: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/stops/{stop}",
    operationId: "getStop",
    summary: "Get a pause or a stop",
    right: "operate",
    query: null,
    body: null,
    responses: { 200: { description: "The pause or stop", schema: stopSchema } },
    async handle(call) {
      return { status: 200, body: await services.operatorView.stop(call.caller.scope, stopId(call.params.stop)) };
    },
  });
}

function liftStop(services: ApiServices): Route {
  return route({
    method: "POST",
    path: "/v1/stops/{stop}/lift",
    operationId: "liftStop",
    summary: "Lift a pause or a stop; what was paused goes on, what was stopped has ended",
    right: "operate",
    query: null,
    body: null,
    responses: { 200: { description: "The pause or stop, lifted", schema: stopSchema } },
    async handle(call) {
      const { scope, actor } = call.caller;
      const id = stopId(call.params.stop);
      // A stop that is not about the caller's own things does not exist for them, so it is looked up before it is touched.
      await services.operatorView.stop(scope, id);
      await services.operators.lift({ tenantId: scope.tenantId, actor, stopId: id });
      return { status: 200, body: await services.operatorView.stop(scope, id) };
    },
  });
}

function pauseRun(services: ApiServices): Route {
  return route({
    method: "POST",
    path: "/v1/runs/{run}/pause",
    operationId: "pauseRun",
    summary: "Keep a run from beginning any call until it is resumed",
    right: "operate",
    query: null,
    body: null,
    responses: RUN,
    async handle(call) {
      const { scope, actor } = call.caller;
      const id = runId(call.params.run);
      const { status } = await services.record.run(scope, id);
      if (RUN_STATES.some((state) => state === status && isTerminal(state))) {
        throw new PlatformError("command_refused", "The run has ended already.");
      }
      const stop = { kind: "pause", scope: "run", subject: id, reason: null } as const;
      await services.operators.stop({ tenantId: scope.tenantId, actor, stopId: services.newStopId(), ...stop });
      return { status: 200, body: showRun(await services.record.run(scope, id)) };
    },
  });
}

function resumeRun(services: ApiServices): Route {
  return route({
    method: "POST",
    path: "/v1/runs/{run}/resume",
    operationId: "resumeRun",
    summary: "Lift the pause of a run; a wider pause still keeps it",
    right: "operate",
    query: null,
    body: null,
    responses: RUN,
    async handle(call) {
      const { scope, actor } = call.caller;
      const id = runId(call.params.run);
      await services.record.run(scope, id);
      const about = { kind: "pause", scope: "run", subject: id } as const;
      const query = { limit: 200, order: "asc", standing: true, about } as const;
      for (const stop of (await services.operatorView.stops(scope, query)).data) {
        await services.operators.lift({ tenantId: scope.tenantId, actor, stopId: stopId(stop.id) });
      }
      return { status: 200, body: showRun(await services.record.run(scope, id)) };
    },
  });
}

function stopId(text: string | undefined): StopId {
  if (text === undefined || !isId("stop", text)) throw new PlatformError("not_found");
  return text;
}
