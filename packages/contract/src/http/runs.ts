import { z } from "zod";
import { END_REASONS, RUN_STATUSES, RUNGS } from "../run.ts";
import { errorObjectSchema, pageOf, timeSchema } from "./common.ts";
import { messageSchema } from "./messages.ts";

export const runSchema = z
  .object({
    id: z.string(),
    conversationId: z.string(),
    messageId: z.string(),
    agent: z.object({ id: z.string(), name: z.string(), revision: z.int() }),
    runtime: z.string(),
    requested: z.record(z.string(), z.unknown()),
    granted: z.record(z.string(), z.unknown()),
    servedModel: z.string().nullable(),
    status: z.enum(RUN_STATUSES),
    reason: z.enum(END_REASONS).nullable(),
    generation: z.int(),
    owner: z.int().nullable(),
    attempt: z.int(),
    rung: z.enum(RUNGS).nullable(),
    /** Weakest grade among the agent's tools. */
    containment: z.enum(["contained", "mediated", "observed"]),
    waitingFor: z.array(z.object({ kind: z.string() })),
    cancelRequestedAt: timeSchema.nullable(),
    usage: z.object({
      inputTokens: z.int(),
      outputTokens: z.int(),
      cacheReadTokens: z.int(),
      cacheWriteTokens: z.int(),
      modelCalls: z.int(),
      toolCalls: z.int(),
    }),
    costMicros: z.int().nullable(),
    answerMessageId: z.string().nullable(),
    error: errorObjectSchema.nullable(),
    traceId: z.string(),
    acceptedAt: timeSchema,
    startedAt: timeSchema.nullable(),
    finishedAt: timeSchema.nullable(),
    eventsUrl: z.string(),
  })
  .meta({ id: "Run" });
export type Run = z.infer<typeof runSchema>;
export const runPageSchema = pageOf(runSchema, "RunPage");

export const acceptedMessageSchema = z
  .object({
    message: messageSchema,
    run: runSchema,
    accepted: z.enum(["started", "queued", "steered"]),
    /** Stream of the conversation, from just before the first event of this run. */
    eventsUrl: z.string(),
  })
  .meta({ id: "AcceptedMessage" });
export type AcceptedMessage = z.infer<typeof acceptedMessageSchema>;

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
export type Info = z.infer<typeof infoSchema>;
