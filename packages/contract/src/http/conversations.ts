import { z } from "zod";
import { RUN_STATUSES } from "../run.ts";
import { INPUT_LIMITS } from "./input-limits.ts";
import { pageOf, pageQuerySchema } from "./page.ts";
import { timeSchema } from "./time.ts";
import { waitSchema } from "./wait.ts";

/** The product's own labels: at most 16, keys of 1 to 64 characters, values of at most 512. */
export const metadataSchema = z
  .record(z.string().min(1).max(INPUT_LIMITS.metadataKeyChars), z.string().max(INPUT_LIMITS.metadataValueChars))
  .refine(
    (all) => Object.keys(all).length <= INPUT_LIMITS.metadataCount,
    `at most ${INPUT_LIMITS.metadataCount} entries`,
  );

/**
 * Body of `POST /v1/conversations`. `title` is `null` and `metadata` empty by default. Errors: `not_found` naming
 * `/agent`.
 */
export const createConversationSchema = z
  .strictObject({
    /** Name or id of the agent that answers. */
    agent: z.string().min(1).max(64),
    title: z.string().max(200).nullable().default(null),
    metadata: metadataSchema.default({}),
  })
  .meta({ id: "CreateConversation", examples: [{ agent: "support" }, { agent: "support", title: "Order 7" }] });

/**
 * Body of `POST /v1/conversations/{conversation}/fork`. Without `messageId` the fork begins with everything that is
 * finished. Errors: `not_found` naming `/messageId`.
 */
export const forkConversationSchema = z
  .strictObject({
    /** The last message of the history that the fork begins with. */
    messageId: z.string().min(1).max(64).optional(),
  })
  .meta({ id: "ForkConversation", examples: [{}, { messageId: "msg_01a22d61df9e7729b40d866ad12aaae4" }] });

/** Where a fork begins. */
export type ForkConversation = z.infer<typeof forkConversationSchema>;

/** What a new conversation is, with its defaults filled in. */
export type CreateConversation = z.infer<typeof createConversationSchema>;

/**
 * Body of `PATCH /v1/conversations/{conversation}`: what is given changes, everything else stays; `metadata` is replaced
 * as a whole. An archived conversation is left out of lists unless they ask for it; a message sent to it is accepted and
 * takes it out of the archive. Errors: `not_found`, `conversation_deleting`.
 */
export const updateConversationSchema = z
  .strictObject({ title: z.string().max(200).nullable(), metadata: metadataSchema, archived: z.boolean() })
  .partial()
  .meta({ id: "UpdateConversation", examples: [{ title: "Order 7" }, { archived: true }] });

/** What changes about a conversation. */
export type UpdateConversation = z.infer<typeof updateConversationSchema>;

/**
 * The query of the list of conversations: a page's, and what narrows it. `archived` is `false` by default. `agent` is an
 * id or a name. `q` finds conversations whose title or whose messages have all these words or words that begin so, in
 * any language that sets words apart. Errors: `invalid_request`, `invalid_cursor`, `search_too_broad`.
 */
export const conversationQuerySchema = pageQuerySchema.extend({
  archived: z.enum(["false", "true", "all"]).default("false"),
  agent: z.string().min(1).max(64).optional(),
  q: z.string().min(1).max(200).optional(),
});

/** The query of the list of conversations with its defaults filled in. */
export type ConversationQuery = z.infer<typeof conversationQuerySchema>;

/** A conversation as the API shows it. */
export const conversationSchema = z
  .object({
    id: z.string(),
    title: z.string().nullable(),
    agent: z.object({ id: z.string(), name: z.string() }),
    participants: z.array(z.object({ user: z.string() })),
    /** The run that is being answered, or `null`. */
    activeRun: z.object({ id: z.string(), status: z.enum(RUN_STATUSES) }).nullable(),
    /** Runs that wait behind it, next first; `position` counts the runs before each. */
    queue: z.array(z.object({ runId: z.string(), messageId: z.string(), position: z.int() })),
    /** What the active run waits for, oldest first. */
    waitingFor: z.array(waitSchema).default([]),
    /** Sequence of the newest event; 0 before the first. */
    lastSequence: z.int(),
    /** The oldest cursor that still works; 0 while every event is kept. */
    keptSequence: z.int().default(0),
    /** The conversation it was forked from, or `null`. */
    forkedFrom: z.string().nullable().default(null),
    metadata: metadataSchema,
    /** True while it is left out of lists that do not ask for it. */
    archived: z.boolean().default(false),
    /** Since when it is being deleted, or `null`: it takes no message and is gone once its last call has ended. */
    deleteRequestedAt: timeSchema.nullable().default(null),
    eventsUrl: z.string(),
    createdAt: timeSchema,
    updatedAt: timeSchema,
  })
  .meta({ id: "Conversation" });

/** The durable subject of an exchange: at most one run answers in it at a time. */
export type Conversation = z.infer<typeof conversationSchema>;

/** A page of conversations. */
export const conversationPageSchema = pageOf(conversationSchema, "ConversationPage");
