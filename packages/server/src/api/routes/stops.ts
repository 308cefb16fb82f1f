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
  type StopId,
} from "@signalbox/contract";
import { z } from "zod";
import { authorised } from "../caller.ts";
import { command } from "../command.ts";
import { route, type Route } from "../route.ts";
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
  return command(services, {
    path: "/v1/stops",
    operationId: "createStop",
    summary: "Pause or stop a run, a conversation, an agent or the tenant; what stands already is answered as it is",
    right: "operate",
    body: createStopSchema,
    responses: {
      200: { description: "It stood already", schema: stopSchema },
      201: { description: "It stands", schema: stopSchema },
    },
    addressOf: (id) => `/v1/stops/${id}`,
    async act(desk, { caller, body }) {
      const { kind, scope, id, reason } = body;
      if ((id === undefined) !== (scope === "tenant")) {
        const detail = scope === "tenant" ? "A tenant is stopped without an id." : `A ${scope} is named by its id.`;
        throw new PlatformError("invalid_request", detail, { fields: [{ pointer: "/id", detail }] });
      }
      const what = { stopId: services.newStopId(), kind, scope, subject: id ?? null, reason };
      const { created, stopId: standing } = await desk.stop({ ...authorised(caller), ...what });
      return { status: created ? 201 : 200, body: await desk.standing(caller.scope, standing) };
    },
  });
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
  return command(services, {
    path: "/v1/stops/{stop}/lift",
    operationId: "liftStop",
    summary: "Lift a pause or a stop; what was paused goes on, what was stopped has ended",
    right: "operate",
    body: null,
    responses: { 200: { description: "The pause or stop, lifted", schema: stopSchema } },
    async act(desk, { caller, params }) {
      const id = stopId(params.stop);
      // A stop that is not about the caller's own things does not exist for them, so it is looked up before it is touched.
      await desk.standing(caller.scope, id);
      await desk.lift({ ...authorised(caller), stopId: id });
      return { status: 200, body: await desk.standing(caller.scope, id) };
    },
  });
}

function pauseRun(services: ApiServices): Route {
  return command(services, {
    path: "/v1/runs/{run}/pause",
    operationId: "pauseRun",
    summary: "Keep a run from beginning any call until it is resumed",
    right: "operate",
    body: null,
    responses: RUN,
    async act(desk, { caller, params }) {
      const id = runId(params.run);
      const { status } = await desk.run(caller.scope, id);
      if (RUN_STATES.some((state) => state === status && isTerminal(state))) {
        throw new PlatformError("command_refused", "The run has ended already.");
      }
      const stop = { stopId: services.newStopId(), kind: "pause", scope: "run", subject: id, reason: null } as const;
      await desk.stop({ ...authorised(caller), ...stop });
      return { status: 200, body: showRun(await desk.run(caller.scope, id)) };
    },
  });
}

function resumeRun(services: ApiServices): Route {
  return command(services, {
    path: "/v1/runs/{run}/resume",
    operationId: "resumeRun",
    summary: "Lift the pause of a run; a wider pause still keeps it",
    right: "operate",
    body: null,
    responses: RUN,
    async act(desk, { caller, params }) {
      const id = runId(params.run);
      await desk.run(caller.scope, id);
      const about = { kind: "pause", scope: "run", subject: id } as const;
      const query = { limit: 200, order: "asc", standing: true, about } as const;
      for (const stop of (await desk.stops(caller.scope, query)).data) {
        await desk.lift({ ...authorised(caller), stopId: stopId(stop.id) });
      }
      return { status: 200, body: showRun(await desk.run(caller.scope, id)) };
    },
  });
}

function stopId(text: string | undefined): StopId {
  if (text === undefined || !isId("stop", text)) throw new PlatformError("not_found");
  return text;
}
