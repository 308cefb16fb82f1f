/** Joins what the API does with webhooks to the store. Here alone a webhook's secret exists as text, until it is shown. */
import {
  makeId,
  PlatformError,
  uuidV7Bytes,
  type Delivery,
  type DeliveryAttempt,
  type DeliveryDetail,
  type Webhook,
  type WebhookState,
} from "@signalbox/contract";
import { LIMITS } from "@signalbox/core";
import type { WebhookDesk } from "../api/webhook-desk.ts";
import type { EgressPolicy } from "../egress/egress-policy.ts";
import { checkUrl } from "../egress/url-guard.ts";
import { DeliveryQueries, type AttemptRow, type DeliveryRow } from "../store/queries/delivery-queries.ts";
import { WebhookQueries, type WebhookRow } from "../store/queries/webhook-queries.ts";
import type { Tenants } from "../store/tenant-database.ts";
import { systemClock, systemRandomness } from "../system/ports.ts";
import type { Sealer } from "../tenancy/sealer.ts";
import { timeOf, timeOrNull } from "./api-shapes.ts";

const SECRET_BYTES = 32;

export interface WebhookDeskParts {
  readonly tenants: Tenants;
  readonly sealer: Sealer;
  readonly policy: EgressPolicy;
}

export function createWebhookDesk({ tenants, sealer, policy }: WebhookDeskParts): WebhookDesk {
  const webhooks = new WebhookQueries(tenants);
  const deliveries = new DeliveryQueries(tenants);
  const show = (row: WebhookRow): Webhook => webhookOf(row, sealer.keyId);
  const freshSecret = (webhookId: string) => {
    const secret = `whsec_${Buffer.from(systemRandomness.bytes(SECRET_BYTES)).toString("base64")}`;
    return { secret, sealed: { secret: sealer.seal(secret, webhookId), secretKey: sealer.keyId } };
  };
  /** Nothing is sent to one that is disabled, so nothing more is promised to it. */
  const enabled = async (tenantId: string, webhookId: string): Promise<void> => {
    const { disabledAtMs } = await webhooks.find(tenantId, webhookId);
    if (disabledAtMs !== null) throw new PlatformError("command_refused", "The webhook is disabled; enable it first.");
  };
  return {
    async create(keeper, { disabled, ...definition }) {
      checkUrl(definition.url, policy);
      const webhookId = makeId("webhook", freshUuid());
      const { secret, sealed } = freshSecret(webhookId);
      const countMax = LIMITS.webhookCount;
      const row = await webhooks.create({ ...keeper, ...definition, ...sealed, webhookId, disabled, countMax });
      return { ...show(row), secret };
    },
    get: async ({ tenantId }, id) => show(await webhooks.find(tenantId, id)),
    async list({ tenantId }, { limit, order, cursor = null }) {
      const page = await webhooks.list(tenantId, { limit, order, cursor });
      return { data: page.items.map(show), nextCursor: page.nextCursor };
    },
    async change(keeper, webhookId, change) {
      if (change.url !== undefined) checkUrl(change.url, policy);
      return show(await webhooks.change({ ...keeper, webhookId, ...change }));
    },
    async rotate(keeper, webhookId, { graceSeconds }) {
      const { secret, sealed } = freshSecret(webhookId);
      const row = await webhooks.rotate({ ...keeper, ...sealed, webhookId, graceMs: graceSeconds * 1_000 });
      return { ...show(row), secret };
    },
    remove: (keeper, webhookId) => webhooks.remove({ ...keeper, webhookId }),
    async test({ tenantId }, webhookId) {
      await enabled(tenantId, webhookId);
      const deliveryId = makeId("delivery", freshUuid());
      const type = "webhook.test";
      const timestamp = timeOf(systemClock.nowMs());
      const payload = JSON.stringify({ id: deliveryId, type, timestamp, data: { webhookId } });
      return detailOf(await deliveries.create({ tenantId, webhookId, deliveryId, type, payload }));
    },
    async deliveries({ tenantId }, webhookId, { limit, order, cursor = null, state }) {
      await webhooks.find(tenantId, webhookId);
      const page = await deliveries.list({ tenantId, webhookId, state }, { limit, order, cursor });
      return { data: page.items.map(deliveryOf), nextCursor: page.nextCursor };
    },
    delivery: async ({ tenantId }, webhookId, deliveryId) =>
      detailOf(await deliveries.find({ tenantId, webhookId, deliveryId })),
    async redeliver({ tenantId }, webhookId, deliveryId) {
      await deliveries.find({ tenantId, webhookId, deliveryId });
      await enabled(tenantId, webhookId);
      return detailOf(await deliveries.renew({ tenantId, webhookId, deliveryId }));
    },
  };
}

function freshUuid(): Uint8Array {
  return uuidV7Bytes(systemClock.nowMs(), systemRandomness.bytes(10));
}

function webhookOf(row: WebhookRow, keyId: string): Webhook {
  return {
    id: row.webhookId,
    url: row.url,
    description: row.description,
    events: [...row.events],
    state: stateOf(row, keyId),
    failingSince: timeOrNull(row.failingSinceMs),
    disabledAt: timeOrNull(row.disabledAtMs),
    disabledCause: row.disabledCause,
    previousSecretUntil: timeOrNull(row.previousUntilMs),
    createdAt: timeOf(row.createdAtMs),
    updatedAt: timeOf(row.updatedAtMs),
  };
}

function stateOf(row: WebhookRow, keyId: string): WebhookState {
  if (row.disabledAtMs !== null) return "disabled";
  if (row.secretKey !== keyId) return "unreadable";
  return row.failingSinceMs === null ? "active" : "failing";
}

function deliveryOf(row: DeliveryRow): Delivery {
  const [last] = row.attempts;
  return { ...commonOf(row), lastAttempt: last === undefined ? null : attemptOf(last) };
}

function detailOf(row: DeliveryRow): DeliveryDetail {
  return { ...commonOf(row), attempts: row.attempts.map(attemptOf), payload: row.payload };
}

function commonOf(row: DeliveryRow): Omit<Delivery, "lastAttempt"> {
  return {
    id: row.deliveryId,
    webhookId: row.webhookId,
    type: row.type,
    conversationId: row.conversationId,
    runId: row.runId,
    sequence: row.sequence,
    state: row.state,
    attemptCount: row.attemptCount,
    nextAttemptAt: timeOrNull(row.nextAtMs),
    createdAt: timeOf(row.createdAtMs),
    finishedAt: timeOrNull(row.finishedAtMs),
  };
}

function attemptOf(row: AttemptRow): DeliveryAttempt {
  const { number, startedAtMs, durationMs, status, errorCode, response } = row;
  return { number, at: timeOf(startedAtMs), durationMs, status, errorCode, response };
}
