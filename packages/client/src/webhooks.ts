/** Webhooks: a tenant's own addresses that are told what happens. */
import {
  deliveryDetailSchema,
  deliveryPageSchema,
  webhookPageSchema,
  webhookSchema,
  webhookWithSecretSchema,
  type CreateWebhook,
  type Delivery,
  type DeliveryDetail,
  type DeliveryState,
  type UpdateWebhook,
  type Webhook,
  type WebhookWithSecret,
} from "@signalbox/contract";
import { queryOf, type ListOptions, type Page } from "./list.ts";
import type { ApiRequest, Transport } from "./transport.ts";

/** What a new webhook is. */
export type NewWebhook = Pick<CreateWebhook, "url" | "events"> & Partial<CreateWebhook>;

/** Which deliveries to list. */
export interface DeliveryFilter extends ListOptions {
  readonly state?: DeliveryState;
}

/**
 * Webhooks of the tenant. The key must have the right `operate` and speak for no end user. Every method that names one
 * can end in `not_found`.
 */
export class Webhooks {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /**
   * The secret that signs what is told comes with it, and never again: where the answer got lost and was asked for
   * again, it is `null`, and a new one is made with `rotate`. Errors: `address_refused`, `command_refused`.
   */
  create(webhook: NewWebhook): Promise<WebhookWithSecret> {
    return this.#post("/v1/webhooks", (body) => webhookWithSecretSchema.parse(body), webhook);
  }

  list(options: ListOptions = {}): Promise<Page<Webhook>> {
    return this.#transport.json({ method: "GET", path: `/v1/webhooks${queryOf(options)}` }, (body) =>
      webhookPageSchema.parse(body),
    );
  }

  get(id: string): Promise<Webhook> {
    return this.#transport.json({ method: "GET", path: pathOf(id) }, (body) => webhookSchema.parse(body));
  }

  /** What is left out stays. Errors: `address_refused`. */
  update(id: string, change: UpdateWebhook): Promise<Webhook> {
    return this.#transport.json({ method: "PATCH", path: pathOf(id), body: change, repeatable: true }, (body) =>
      webhookSchema.parse(body),
    );
  }

  /** A new secret; the old one signs beside it for `graceSeconds`. Default: a day. */
  rotate(id: string, options: { readonly graceSeconds?: number } = {}): Promise<WebhookWithSecret> {
    return this.#post(`${pathOf(id)}/rotate`, (body) => webhookWithSecretSchema.parse(body), options);
  }

  /** With everything that is still owed to it. */
  async delete(id: string): Promise<void> {
    const response = await this.#transport.once({ method: "DELETE", path: pathOf(id) });
    await response.body?.cancel();
  }

  /** Has it told something of no consequence. Errors: `command_refused` (it is disabled). */
  test(id: string): Promise<DeliveryDetail> {
    return this.#post(`${pathOf(id)}/test`, (body) => deliveryDetailSchema.parse(body));
  }

  /** What it was to be told, with the last attempt of each. */
  deliveries(id: string, filter: DeliveryFilter = {}): Promise<Page<Delivery>> {
    return this.#transport.json({ method: "GET", path: `${pathOf(id)}/deliveries${queryOf(filter)}` }, (body) =>
      deliveryPageSchema.parse(body),
    );
  }

  /** One of them with every attempt, and what is sent. */
  delivery(id: string, deliveryId: string): Promise<DeliveryDetail> {
    return this.#transport.json({ method: "GET", path: deliveryPath(id, deliveryId) }, (body) =>
      deliveryDetailSchema.parse(body),
    );
  }

  /** Has it told again, now. Errors: `command_refused` (the webhook is disabled). */
  redeliver(id: string, deliveryId: string): Promise<DeliveryDetail> {
    return this.#post(`${deliveryPath(id, deliveryId)}/redeliver`, (body) => deliveryDetailSchema.parse(body));
  }

  #post<T>(path: string, parse: (body: unknown) => T, body?: object): Promise<T> {
    const request: ApiRequest = { method: "POST", path, idempotencyKey: crypto.randomUUID() };
    return this.#transport.json(body === undefined ? request : { ...request, body }, parse);
  }
}

function pathOf(id: string): string {
  return `/v1/webhooks/${encodeURIComponent(id)}`;
}

function deliveryPath(id: string, deliveryId: string): string {
  return `${pathOf(id)}/deliveries/${encodeURIComponent(deliveryId)}`;
}
