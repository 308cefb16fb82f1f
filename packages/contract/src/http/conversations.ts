import { z } from "zod";
import { RUN_STATUSES } from "../run.ts";
import { pageOf, timeSchema } from "./common.ts";

const metadataSchema = z
  .record(z.string().min(1).max(64), z.string().max(512))
  .refine((all) => Object.keys(all).length <= 16, "at most 16 entries");

export const createConversationSchema = z
  .strictObject({
    /** Name or id of the agent that answers. */
    agent: z.string().min(1).max(64),
    title: z.string().max(200).nullable().default(null),
    metadata: metadataSchema.default({}),
  })
  .meta({ id: "CreateConversation" });
export type CreateConversation = z.infer<typeof createConversationSchema>;

export const conversationSchema = z
  .object({
    id: z.string(),
    title: z.string().nullable(),
    agent: z.object({ id: z.string(), name: z.string() }),
    participants: z.array(z.object({ user: z.string() })),
    activeRun: z.object({ id: z.string(), status: z.enum(RUN_STATUSES) }).nullable(),
    queue: z.array(z.object({ runId: z.string(), messageId: z.string(), position: z.int() })),
    waitingFor: z.array(z.object({ kind: z.string() })),
    lastSequence: z.int(),
    metadata: metadataSchema,
    eventsUrl: z.string(),
    createdAt: timeSchema,
    updatedAt: timeSchema,
  })
  .meta({ id: "Conversation" });
export type Conversation = z.infer<typeof conversationSchema>;
export const conversationPageSchema = pageOf(conversationSchema, "ConversationPage");
