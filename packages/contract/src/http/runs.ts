import { z } from "zod";
import { CONTAINMENT_GRADES, END_REASONS, RUN_STATUSES, RUNGS } from "../run.ts";
import { messageSchema } from "./messages.ts";
import { pageOf } from "./page.ts";
import { errorObjectSchema } from "./problem.ts";
import { timeSchema } from "./time.ts";
import { waitSchema } from "./wait.ts";

/** A run as the API shows it: what was asked, what was granted, where it stands and what it used. */
export const runSchema = z
  .object({
    id: z.string(),
    conversationId: z.string(),
    messageId: z.string(),
    agent: z.object({ id: z.string(), name: z.string(), revision: z.int() }),
    runtime: z.string(),
    /** What the message asked for beyond its text, and what admission granted. */
    requested: z.record(z.string(), z.unknown()),
    granted: z.record(z.string(), z.unknown()),
    /** The model that answered, as its provider named it; `null` until one has. */
    servedModel: z.string().nullable(),
    status: z.enum(RUN_STATUSES),
    /** Why it ended; `null` while it has not. */
    reason: z.enum(END_REASONS).nullable(),
    /** 0 until it is owned for the first time. */
    generation: z.int(),
    owner: z.int().nullable(),
    /** Grows with each owner and each worker it needed. */
    attempt: z.int(),
    /** How its transcript was found; `null` until its turn is composed. */
    rung: z.enum(RUNGS).nullable(),
    /** Weakest grade among the agent's tools. */
    containment: z.enum(CONTAINMENT_GRADES),
    /** The holds it waits for, oldest first. Its status is `waiting` once it waits without a worker. */
    waitingFor: z.array(waitSchema).default([]),
    cancelRequestedAt: timeSchema.nullable(),
    /** Tokens by class (the classes do not overlap) and calls, as the gates counted them. */
    usage: z.object({
      inputTokens: z.int(),
      outputTokens: z.int(),
      cacheReadTokens: z.int(),
      cacheWriteTokens: z.int(),
      modelCalls: z.int(),
      toolCalls: z.int(),
    }),
    /** Integer micro-USD, or `null` when the price of a model is not known. */
    costMicros: z.int().nullable(),
    /** The run whose message this one answers again, or `null`. */
    retryOf: z.string().nullable().default(null),
    /** The answer's message, or `null` when there is none to keep. */
    answerMessageId: z.string().nullable(),
    error: errorObjectSchema.nullable(),
    traceId: z.string(),
    acceptedAt: timeSchema,
    startedAt: timeSchema.nullable(),
    finishedAt: timeSchema.nullable(),
    /** Stream of the conversation, from just before the first event of this run. */
    eventsUrl: z.string(),
  })
  .meta({ id: "Run" });

/** One admitted obligation to answer one message. */
export type Run = z.infer<typeof runSchema>;

/** A page of runs. */
export const runPageSchema = pageOf(runSchema, "RunPage");

/** Answer to a message that was accepted (202): it is recorded, and its run will reach an end. */
export const acceptedMessageSchema = z
  .object({
    message: messageSchema,
    run: runSchema,
    /** Whether its run began, waits, or is handed to the active run. */
    accepted: z.enum(["started", "queued", "steered"]),
    /** Stream of the conversation, from just before the first event of this run. */
    eventsUrl: z.string(),
  })
  .meta({ id: "AcceptedMessage" });

/** What was acknowledged; a replay of the same idempotency key is acknowledged with the same document. */
export type AcceptedMessage = z.infer<typeof acceptedMessageSchema>;

/** Answer to a message whose sender waited for the end of its run (200). */
export const answeredMessageSchema = acceptedMessageSchema
  .extend({
    /** The answer, or what there was of it; `null` when there is none to keep. */
    answer: messageSchema.nullable(),
  })
  .meta({ id: "AnsweredMessage" });

/** A message, its run as it ended, and its answer. */
export type AnsweredMessage = z.infer<typeof answeredMessageSchema>;

/** What the platform says about itself: version, features, limits by name (units end the names), model providers. */
export const infoSchema = z
  .object({
    name: z.literal("signalbox"),
    version: z.string(),
    apiVersion: z.literal("v1"),
    features: z.record(z.string(), z.boolean()),
    limits: z.record(z.string(), z.int()),
    providers: z.array(z.object({ name: z.string(), simulated: z.boolean() })),
  })
  .meta({ id: "Info" });

/** The platform's version, features, limits and model providers. */
export type Info = z.infer<typeof infoSchema>;
