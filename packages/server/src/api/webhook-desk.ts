/** What the API does with webhooks. Wiring joins it to the store, to the guard of addresses and to the sealed secrets. */
import type {
  CreateWebhook,
  Delivery,
  DeliveryDetail,
  DeliveryState,
  PageQuery,
  RotateWebhook,
  UpdateWebhook,
  Webhook,
  WebhookWithSecret,
  Actor,
} from "@signalbox/contract";
import type { Page } from "./api-record.ts";

/** For whom: webhooks are the tenant's. */
export interface Keeper {
  readonly tenantId: string;
  readonly actor: Actor;
}

export interface DeliveriesQuery extends PageQuery {
  readonly state: DeliveryState | null;
}

/** Every method that names a thing ends in `not_found` for what the tenant does not have. */
export interface WebhookDesk {
  /** Errors: `address_refused`, `command_refused`. */
  create(keeper: Keeper, webhook: CreateWebhook): Promise<WebhookWithSecret>;
  get(keeper: Keeper, id: string): Promise<Webhook>;
  list(keeper: Keeper, page: PageQuery): Promise<Page<Webhook>>;
  /** Errors: `address_refused`. */
  change(keeper: Keeper, id: string, change: UpdateWebhook): Promise<Webhook>;
  rotate(keeper: Keeper, id: string, how: RotateWebhook): Promise<WebhookWithSecret>;
  remove(keeper: Keeper, id: string): Promise<void>;
  /** Errors: `command_refused` (it is disabled). */
  test(keeper: Keeper, id: string): Promise<DeliveryDetail>;
  deliveries(keeper: Keeper, id: string, query: DeliveriesQuery): Promise<Page<Delivery>>;
  delivery(keeper: Keeper, id: string, deliveryId: string): Promise<DeliveryDetail>;
  /** Errors: `command_refused` (the webhook is disabled). */
  redeliver(keeper: Keeper, id: string, deliveryId: string): Promise<DeliveryDetail>;
}
