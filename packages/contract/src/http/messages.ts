import { z } from "zod";
import { WHEN_BUSY } from "../run.ts";
import { metadataSchema } from "./conversations.ts";
import { pageOf } from "./page.ts";
import { timeSchema } from "./time.ts";

const textPart = z.strictObject({ type: z.literal("text"), text: z.string() });

/**
 * Body of `POST /v1/conversations/{conversation}/messages`: everything a message may carry. Fields of capabilities
 * that this release does not serve are part of the schema so that they are refused by name (`field_not_supported`) and
 * not as unknown. Errors: `conversation_busy` with `activeRunId`, `queue_full`, `message_rate_exceeded`,
 * `too_many_runs`, `field_not_supported`, `model_not_granted`, `idempotency_key_reused`.
 */
export const sendMessageSchema = z
  .strictObject({
    content: z.union([z.string(), z.array(textPart).min(1).max(64)]),
    /** What it does when a run is active; where it does not say, its agent does. */
    whenBusy: z.enum(WHEN_BUSY).optional(),
    metadata: metadataSchema.optional(),
    /** A client-minted message id counts as an idempotency key. */
    id: z.string().optional(),
    attachments: z.unknown().optional(),
    mode: z.unknown().optional(),
    model: z.unknown().optional(),
    effort: z.unknown().optional(),
    capabilities: z.unknown().optional(),
    context: z.unknown().optional(),
    channel: z.unknown().optional(),
    speakable: z.unknown().optional(),
    projectId: z.unknown().optional(),
  })
  .meta({
    id: "SendMessage",
    examples: [
      { content: "What is a lease?" },
      { content: [{ type: "text", text: "Stop that." }], whenBusy: "interrupt" },
    ],
  });

/** What a caller sends to a conversation. */
export type SendMessage = z.infer<typeof sendMessageSchema>;

/** One message of the history: what a person or program said, or the answer to it. */
export const messageSchema = z
  .object({
    id: z.string(),
    conversationId: z.string(),
    /** `null` for what a fork began with. */
    runId: z.string().nullable(),
    role: z.enum(["user", "assistant"]),
    content: z.string(),
    /** True when the run ended before the answer was whole. */
    partial: z.boolean(),
    /** True when its turn was rolled back: agents do not see it any more. */
    struck: z.boolean().default(false),
    metadata: z.record(z.string(), z.string()),
    createdAt: timeSchema,
  })
  .meta({ id: "Message" });

/** A message of the history; `content` is its text. */
export type Message = z.infer<typeof messageSchema>;

/** A page of the history. */
export const messagePageSchema = pageOf(messageSchema, "MessagePage");
