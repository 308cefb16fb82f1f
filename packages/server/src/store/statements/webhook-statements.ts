/** Statements of what is owed to webhooks. */
import { call } from "./record-statements.ts";

export const SETTLE_DELIVERY = call("settle_delivery", 9);

export const BEGIN_DELIVERIES = {
  name: "begin_deliveries",
  text: `select delivery_id as "deliveryId", webhook_id as "webhookId", number, effort, url, secret,
      previous_secret as "previousSecret", payload
    from signalbox.begin_deliveries($1, $2, $3, $4, $5)`,
} as const;

export const HAS_WEBHOOKS = call("has_webhooks", 0);
