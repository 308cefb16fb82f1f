/** Webhooks: a tenant's own addresses that are told what happens, and what they were told. */
import {
  createWebhookSchema,
  DELIVERY_STATES,
  deliveryDetailSchema,
  deliveryPageSchema,
  isId,
  pageQuerySchema,
  PlatformError,
  rotateWebhookSchema,
  updateWebhookSchema,
  webhookPageSchema,
  webhookSchema,
  webhookWithSecretSchema,
} from "@signalbox/contract";
import { z } from "zod";
import { authorised, type Caller } from "../caller.ts";
import { command } from "../command.ts";
import { route, type Route } from "../route.ts";
import type { ApiServices } from "../services.ts";
import type { Keeper } from "../webhook-desk.ts";

const deliveriesQuerySchema = pageQuerySchema.extend({ state: z.enum(DELIVERY_STATES).optional() });
const WEBHOOK = { 200: { description: "The webhook", schema: webhookSchema } };
const DELIVERY = { 202: { description: "It will be told", schema: deliveryDetailSchema } };

export function webhookRoutes(services: ApiServices): readonly Route[] {
  return [
    createWebhook(services),
    listWebhooks(services),
    getWebhook(services),
    updateWebhook(services),
    deleteWebhook(services),
    rotateWebhook(services),
    testWebhook(services),
    listDeliveries(services),
    getDelivery(services),
    redeliver(services),
  ];
}

function createWebhook(services: ApiServices): Route {
  return command(services, {
    path: "/v1/webhooks",
    operationId: "createWebhook",
    summary: "Have an address told what happens; the secret that signs it is shown this once",
    right: "operate",
    body: createWebhookSchema,
    responses: { 201: { description: "The webhook and its secret", schema: webhookWithSecretSchema } },
    addressOf: (id) => `/v1/webhooks/${id}`,
    kept: (body) => ({ ...body, secret: null }),
    async act(desk, { caller, body }) {
      return { status: 201, body: await desk.webhooks.create(keeperOf(caller), body) };
    },
  });
}

function listWebhooks({ commands }: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/webhooks",
    operationId: "listWebhooks",
    summary: "List webhooks",
    right: "operate",
    query: pageQuerySchema,
    body: null,
    responses: { 200: { description: "A page of webhooks", schema: webhookPageSchema } },
    async handle({ caller, query }) {
      const page = await commands.desk.webhooks.list(keeperOf(caller), query);
      return { status: 200, body: { data: [...page.data], nextCursor: page.nextCursor } };
    },
  });
}

function getWebhook({ commands }: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/webhooks/{webhook}",
    operationId: "getWebhook",
    summary: "Get a webhook",
    right: "operate",
    query: null,
    body: null,
    responses: WEBHOOK,
    async handle({ caller, params }) {
      return { status: 200, body: await commands.desk.webhooks.get(keeperOf(caller), webhookId(params.webhook)) };
    },
  });
}

function updateWebhook({ commands }: ApiServices): Route {
  return route({
    method: "PATCH",
    path: "/v1/webhooks/{webhook}",
    operationId: "updateWebhook",
    summary: "Change a webhook, disable it, or enable it again: then what was owed meanwhile is told",
    right: "operate",
    query: null,
    body: updateWebhookSchema,
    responses: WEBHOOK,
    async handle({ caller, params, body }) {
      const keeper = keeperOf(caller);
      return { status: 200, body: await commands.desk.webhooks.change(keeper, webhookId(params.webhook), body) };
    },
  });
}

function deleteWebhook({ commands }: ApiServices): Route {
  return route({
    method: "DELETE",
    path: "/v1/webhooks/{webhook}",
    operationId: "deleteWebhook",
    summary: "Remove a webhook, with everything that is still owed to it",
    right: "operate",
    query: null,
    body: null,
    responses: { 204: { description: "It is gone", schema: null } },
    async handle({ caller, params }) {
      await commands.desk.webhooks.remove(keeperOf(caller), webhookId(params.webhook));
      return { status: 204, body: null };
    },
  });
}

function rotateWebhook(services: ApiServices): Route {
  return command(services, {
    path: "/v1/webhooks/{webhook}/rotate",
    operationId: "rotateWebhook",
    summary: "Give a webhook a new secret; for a while the old one signs as well",
    right: "operate",
    body: rotateWebhookSchema,
    responses: { 200: { description: "The webhook and its new secret", schema: webhookWithSecretSchema } },
    kept: (body) => ({ ...body, secret: null }),
    async act(desk, { caller, params, body }) {
      const keeper = keeperOf(caller);
      return { status: 200, body: await desk.webhooks.rotate(keeper, webhookId(params.webhook), body) };
    },
  });
}

function testWebhook(services: ApiServices): Route {
  return command(services, {
    path: "/v1/webhooks/{webhook}/test",
    operationId: "testWebhook",
    summary: "Tell a webhook something of no consequence (`webhook.test`)",
    right: "operate",
    body: null,
    responses: DELIVERY,
    async act(desk, { caller, params }) {
      return { status: 202, body: await desk.webhooks.test(keeperOf(caller), webhookId(params.webhook)) };
    },
  });
}

function listDeliveries({ commands }: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/webhooks/{webhook}/deliveries",
    operationId: "listDeliveries",
    summary: "List what a webhook was to be told in the last thirty days, and what came of it",
    right: "operate",
    query: deliveriesQuerySchema,
    body: null,
    responses: { 200: { description: "A page of deliveries", schema: deliveryPageSchema } },
    async handle({ caller, params, query: { state = null, ...page } }) {
      const id = webhookId(params.webhook);
      const deliveries = await commands.desk.webhooks.deliveries(keeperOf(caller), id, { ...page, state });
      return { status: 200, body: { data: [...deliveries.data], nextCursor: deliveries.nextCursor } };
    },
  });
}

function getDelivery({ commands }: ApiServices): Route {
  return route({
    method: "GET",
    path: "/v1/webhooks/{webhook}/deliveries/{delivery}",
    operationId: "getDelivery",
    summary: "Get a delivery with what is sent and every attempt",
    right: "operate",
    query: null,
    body: null,
    responses: { 200: { description: "The delivery", schema: deliveryDetailSchema } },
    async handle({ caller, params }) {
      const [id, delivery] = [webhookId(params.webhook), deliveryId(params.delivery)];
      return { status: 200, body: await commands.desk.webhooks.delivery(keeperOf(caller), id, delivery) };
    },
  });
}

function redeliver(services: ApiServices): Route {
  return command(services, {
    path: "/v1/webhooks/{webhook}/deliveries/{delivery}/redeliver",
    operationId: "redeliver",
    summary: "Tell it again, now, under the same `webhook-id`",
    right: "operate",
    body: null,
    responses: DELIVERY,
    async act(desk, { caller, params }) {
      const [id, delivery] = [webhookId(params.webhook), deliveryId(params.delivery)];
      return { status: 202, body: await desk.webhooks.redeliver(keeperOf(caller), id, delivery) };
    },
  });
}

/** A webhook is told of everybody's runs, so it is nobody's but the tenant's. */
function keeperOf(caller: Caller): Keeper {
  if (caller.scope.user !== null) {
    throw new PlatformError("permission_denied", "A key that speaks for an end user has nothing to do with webhooks.");
  }
  return authorised(caller);
}

function webhookId(text: string | undefined): string {
  if (text === undefined || !isId("webhook", text)) throw new PlatformError("not_found");
  return text;
}

function deliveryId(text: string | undefined): string {
  if (text === undefined || !isId("delivery", text)) throw new PlatformError("not_found");
  return text;
}
