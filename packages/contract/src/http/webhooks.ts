import { z } from "zod";
import { pageOf } from "./page.ts";
import { timeSchema } from "./time.ts";

/** What a webhook may be told of: events of runs and holds, and calls whose outcome is not known. */
export const WEBHOOK_EVENTS = [
  "run.suspended",
  "run.resumed",
  "run.finished",
  "hold.opened",
  "hold.decided",
  "hold.expired",
  "hold.withdrawn",
  "tool.unknown",
] as const;
/** What a webhook may be told of. */
export type WebhookEvent = (typeof WEBHOOK_EVENTS)[number];

/** `failing`: the last attempts failed. `unreadable`: its secret was sealed by another platform secret; rotate it. */
export const WEBHOOK_STATES = ["active", "failing", "disabled", "unreadable"] as const;
/** How a webhook is. */
export type WebhookState = (typeof WEBHOOK_STATES)[number];

/** Why nothing is told there: it was asked for, nothing has arrived for days, or the receiver answered 410. */
export const WEBHOOK_DISABLED_CAUSES = ["request", "failing", "gone"] as const;
/** Why nothing is told there. */
export type WebhookDisabledCause = (typeof WEBHOOK_DISABLED_CAUSES)[number];

/** What became of a delivery so far. */
export const DELIVERY_STATES = ["pending", "delivered", "failed"] as const;
/** What became of a delivery so far. */
export type DeliveryState = (typeof DELIVERY_STATES)[number];

const EVENT_COUNT = WEBHOOK_EVENTS.length;
const DESCRIPTION_CHARS = 500;
const URL_CHARS = 2_048;
const GRACE_SECONDS = 86_400;
const GRACE_SECONDS_MAX = 7 * GRACE_SECONDS;

const urlSchema = z.string().min(1).max(URL_CHARS);
const eventsSchema = z
  .array(z.enum(WEBHOOK_EVENTS))
  .min(1)
  .max(EVENT_COUNT)
  .refine((events) => new Set(events).size === events.length, "names an event twice");

/**
 * Body of `POST /v1/webhooks`. Errors: `address_refused` (the address is not one that may be called), `command_refused`
 * (the tenant has as many as it may), `permission_denied` (a key that speaks for an end user).
 */
export const createWebhookSchema = z
  .strictObject({
    /** `https`, and a public host unless the operator allows others. */
    url: urlSchema,
    events: eventsSchema,
    description: z.string().max(DESCRIPTION_CHARS).default(""),
    disabled: z.boolean().default(false),
  })
  .meta({
    id: "CreateWebhook",
    examples: [{ url: "https://example.com/hooks", events: ["run.finished", "hold.opened"] }],
  });

/** A webhook to be made. */
export type CreateWebhook = z.infer<typeof createWebhookSchema>;

/** Body of `PATCH /v1/webhooks/{webhook}`; what is left out stays. Errors: `address_refused`, `not_found`. */
export const updateWebhookSchema = z
  .strictObject({
    url: urlSchema.optional(),
    events: eventsSchema.optional(),
    description: z.string().max(DESCRIPTION_CHARS).optional(),
    disabled: z.boolean().optional(),
  })
  .refine((change) => Object.keys(change).length > 0, "names nothing to change")
  .meta({ id: "UpdateWebhook", examples: [{ disabled: false }, { events: ["hold.opened"] }] });

/** A change of a webhook. */
export type UpdateWebhook = z.infer<typeof updateWebhookSchema>;

/** A webhook: an address that is told what happens. */
export const webhookSchema = z
  .object({
    id: z.string(),
    url: z.string(),
    description: z.string(),
    events: z.array(z.string()),
    state: z.enum(WEBHOOK_STATES),
    /** Since when nothing has arrived there, or `null`. */
    failingSince: timeSchema.nullable(),
    disabledAt: timeSchema.nullable(),
    disabledCause: z.enum(WEBHOOK_DISABLED_CAUSES).nullable(),
    /** Until then the secret before the present one signs as well; `null` when it does not. */
    previousSecretUntil: timeSchema.nullable(),
    createdAt: timeSchema,
    updatedAt: timeSchema,
  })
  .meta({ id: "Webhook" });

/** A webhook. */
export type Webhook = z.infer<typeof webhookSchema>;

/** A page of webhooks. */
export const webhookPageSchema = pageOf(webhookSchema, "WebhookPage");

/** A webhook with the secret that signs what it is told, shown this once: a replay of the same request has `null`. */
export const webhookWithSecretSchema = webhookSchema
  .extend({
    /** `whsec_…`, as Standard Webhooks has it. */
    secret: z.string().nullable(),
  })
  .meta({ id: "WebhookWithSecret" });

/** A webhook with its secret. */
export type WebhookWithSecret = z.infer<typeof webhookWithSecretSchema>;

/** Body of `POST /v1/webhooks/{webhook}/rotate`. For `graceSeconds` both secrets sign (default a day, at most a week). */
export const rotateWebhookSchema = z
  .strictObject({ graceSeconds: z.int().min(0).max(GRACE_SECONDS_MAX).default(GRACE_SECONDS) })
  .meta({ id: "RotateWebhook", examples: [{}, { graceSeconds: 0 }] });

/** How a secret is replaced. */
export type RotateWebhook = z.infer<typeof rotateWebhookSchema>;

/** One attempt to deliver. */
export const deliveryAttemptSchema = z
  .object({
    number: z.int(),
    at: timeSchema,
    /** `null` while it is under way, and for ever when the process that made it died. */
    durationMs: z.int().nullable(),
    /** Of the answer, or `null` when there was none. */
    status: z.int().nullable(),
    /**
     * Why it does not count: `http_status`, `redirected`, `timeout`, `address_refused`, `name_not_found`,
     * `connection_refused`, `connection_failed`, `tls_failed`, `secret_unreadable` or `shutting_down`.
     */
    errorCode: z.string().nullable(),
    /** How the answer began. */
    response: z.string().nullable(),
  })
  .meta({ id: "DeliveryAttempt" });

/** One attempt to deliver. */
export type DeliveryAttempt = z.infer<typeof deliveryAttemptSchema>;

const deliveryShape = {
  /** Also the header `webhook-id` of every attempt. */
  id: z.string(),
  webhookId: z.string(),
  type: z.string(),
  conversationId: z.string().nullable(),
  runId: z.string().nullable(),
  /** Of the event in its conversation. */
  sequence: z.int().nullable(),
  state: z.enum(DELIVERY_STATES),
  attemptCount: z.int(),
  /** When it is tried again; `null` when it is not. */
  nextAttemptAt: timeSchema.nullable(),
  createdAt: timeSchema,
  /** When it arrived or was given up. */
  finishedAt: timeSchema.nullable(),
};

/** Something that a webhook was to be told, with the last attempt to do so. */
export const deliverySchema = z
  .object({ ...deliveryShape, lastAttempt: deliveryAttemptSchema.nullable() })
  .meta({ id: "Delivery" });

/** Something that a webhook was to be told. */
export type Delivery = z.infer<typeof deliverySchema>;

/** A page of deliveries. */
export const deliveryPageSchema = pageOf(deliverySchema, "DeliveryPage");

/** A delivery with every attempt, and what was sent. */
export const deliveryDetailSchema = z
  .object({
    ...deliveryShape,
    attempts: z.array(deliveryAttemptSchema),
    /** The body as it is sent, byte for byte. */
    payload: z.string(),
  })
  .meta({ id: "DeliveryDetail" });

/** A delivery with every attempt. */
export type DeliveryDetail = z.infer<typeof deliveryDetailSchema>;
