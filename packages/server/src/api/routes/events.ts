/** The feed over all conversations of a tenant, for products that follow many of them at once. */
import { setTimeout as elapsed } from "node:timers/promises";
import { eventPageSchema, PlatformError } from "@signalbox/contract";
import { z } from "zod";
import type { FeedPage } from "../api-record.ts";
import { HIJACKED, route, type Answer, type Route, type RouteCall } from "../route.ts";
import type { ApiServices } from "../services.ts";
import { SseResponse } from "../sse-response.ts";
import { stringHeaders } from "../stream.ts";

const LIMIT_MAX = 200;
/** A follower looks this often; events show once every older transaction has ended, so a bell would come too early. */
const FEED_POLL_MS = 500;

const feedQuerySchema = z.strictObject({
  after: z.string().max(256).optional(),
  agent: z.string().min(1).max(64).optional(),
  follow: z.enum(["true", "false"]).default("false"),
  limit: z
    .string()
    .regex(/^[0-9]{1,9}$/, `must be a whole number from 1 to ${LIMIT_MAX}`)
    .transform(Number)
    .pipe(z.int().min(1).max(LIMIT_MAX))
    .default(LIMIT_MAX)
    .meta({ override: { type: "integer", minimum: 1, maximum: LIMIT_MAX, default: LIMIT_MAX } }),
});
type FeedCall = RouteCall<null, z.output<typeof feedQuerySchema>>;

export function eventRoutes(services: ApiServices): readonly Route[] {
  return [
    route({
      method: "GET",
      path: "/v1/events",
      operationId: "listEvents",
      summary: "Events of all conversations, of one agent or of all; with follow=true as SSE frames",
      right: "read",
      query: feedQuerySchema,
      body: null,
      responses: { 200: { description: "A page of events", schema: eventPageSchema } },
      handle: (call) => (call.query.follow === "true" ? follow(services, call) : page(services, call)),
    }),
  ];
}

async function page(services: ApiServices, call: FeedCall): Promise<Answer> {
  const { rows, nextCursor, more } = await read(services, call, call.query.after ?? null);
  const events = rows.map(({ json }) => json).join(",");
  return { status: 200, body: `{"data":[${events}],"nextCursor":${JSON.stringify(nextCursor)},"more":${more}}` };
}

async function follow(services: ApiServices, call: FeedCall): Promise<typeof HIJACKED> {
  const header = call.headers["last-event-id"];
  let cursor = typeof header === "string" && header !== "" ? header : (call.query.after ?? null);
  // A cursor that is none, and an agent that does not exist, are refused before the stream begins.
  let read0: FeedPage | null = await read(services, call, cursor);
  const sent = call.reply.getHeaders();
  call.reply.hijack();
  using response = new SseResponse(call.reply.raw, {
    headers: stringHeaders(sent),
    slowReaderMs: services.slowReaderMs,
  });
  const stop = AbortSignal.any([response.gone, services.stopping]);
  try {
    while (!stop.aborted) {
      const { rows, nextCursor, more } = read0 ?? (await read(services, call, cursor));
      read0 = null;
      for (const { cursor: id, type, json } of rows) await response.send({ type, data: json, id });
      cursor = nextCursor;
      if (!more) await elapsed(FEED_POLL_MS, undefined, { signal: stop }).catch(() => undefined);
    }
    if (services.stopping.aborted) response.close("server_stopping");
  } catch (thrown) {
    if (thrown instanceof PlatformError && (thrown.code === "cursor_expired" || thrown.code === "cursor_lost")) {
      response.close(thrown.code);
    } else {
      services.log.error("a feed ended early", thrown, { request: call.requestId });
      response.close("internal");
    }
  }
  return HIJACKED;
}

async function read(services: ApiServices, call: FeedCall, after: string | null): Promise<FeedPage> {
  const { scope } = call.caller;
  const { agent, limit } = call.query;
  const agentId = agent === undefined ? null : (await services.record.agent(scope, agent)).id;
  if (after === "") throw new PlatformError("invalid_cursor");
  return services.record.feed(scope, { after, agentId, limit });
}
