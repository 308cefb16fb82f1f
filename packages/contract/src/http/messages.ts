import { z } from "zod";
import { WHEN_BUSY } from "../run.ts";
import { pageOf, timeSchema } from "./common.ts";

const textPart = z.strictObject({ type: z.literal("text"), text: z.string() });

/**
 * Everything a message may carry by the API's conventions. Fields of capabilities that this release does not serve
 * are part of the schema so that they are refused by name (`field_not_supported`) and not as unknown.
 */
export const sendMessageSchema = z
  .strictObject({
    content: z.union([z.string(), z.array(textPart).min(1).max(64)]),
    whenBusy: z.enum(WHEN_BUSY).optional(),
    metadata: z.record(z.string().min(1).max(64), z.string().max(512)).optional(),
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
  .meta({ id: "SendMessage" });
export type SendMessage = z.infer<typeof sendMessageSchema>;

export const messageSchema = z
  .object({
    id: z.string(),
    conversationId: z.string(),
    runId: z.string().nullable(),
    role: z.enum(["user", "assistant"]),
    content: z.string(),
    /** True when the run ended before the answer was whole. */
    partial: z.boolean(),
    metadata: z.record(z.string(), z.string()),
    createdAt: timeSchema,
  })
  .meta({ id: "Message" });
export type Message = z.infer<typeof messageSchema>;
export const messagePageSchema = pageOf(messageSchema, "MessagePage");
