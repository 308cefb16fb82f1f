/**
 * The event language: one form for live delivery and for replay. An event speaks about an item (`itemId`); a newer
 * form of the same item has a higher `revision`. Durable events carry a `sequence`, 1, 2, 3 … without gaps within
 * their conversation; a live delta that is not (yet) durable has `sequence: null` and is sent without an SSE id.
 */
import { z } from "zod";
import { errorObjectSchema } from "./http/problem.ts";
import { waitSchema } from "./http/wait.ts";
import {
  CONTAINMENT_GRADES,
  EFFECT_CLASSES,
  END_REASONS,
  HOLD_KINDS,
  RUNGS,
  TERMINAL_STATES,
  TOOL_CALL_STATES,
} from "./run.ts";

/** Room for this many revisions of one item per generation: a revision is generation × 2²⁰ + step. */
export const REVISIONS_PER_GENERATION = 2 ** 20;

/** The revision of an item: whatever a later owner says replaces what any reader saw from an earlier one. */
export function revisionOf(generation: number, step: number): number {
  return generation * REVISIONS_PER_GENERATION + step;
}

const usageShape = z.object({
  inputTokens: z.int(),
  outputTokens: z.int(),
  cacheReadTokens: z.int(),
  cacheWriteTokens: z.int(),
});

const envelope = {
  itemId: z.string(),
  sequence: z.int().min(1).nullable(),
  revision: z.int().min(0),
  conversationId: z.string(),
  runId: z.string().nullable(),
  turnId: z.string().nullable(),
  traceId: z.string().nullable(),
  generation: z.int().min(0),
  at: z.string(),
};

function event<T extends string, S extends z.ZodRawShape>(type: T, id: string, data: S) {
  return z.object({ type: z.literal(type), ...envelope, ...data }).meta({ id });
}

/** Every type of event with its schema. Clients ignore types they do not know: a release may add some. */
export const EVENT_SCHEMAS = {
  "run.admitted": event("run.admitted", "RunAdmittedEvent", { messageId: z.string() }),
  "run.started": event("run.started", "RunStartedEvent", { runtime: z.string(), attempt: z.int() }),
  "run.phase": event("run.phase", "RunPhaseEvent", {
    phase: z.enum(["thinking", "writing", "using_tool", "waiting_provider", "waiting_person", "compacting"]),
  }),
  "run.recovered": event("run.recovered", "RunRecoveredEvent", {
    cause: z.enum(["owner_lost", "worker_lost"]),
    attempt: z.int(),
  }),
  "run.suspended": event("run.suspended", "RunSuspendedEvent", { waitingFor: z.array(waitSchema) }),
  "run.resumed": event("run.resumed", "RunResumedEvent", {}),
  "run.finished": event("run.finished", "RunFinishedEvent", {
    outcome: z.enum(TERMINAL_STATES),
    reason: z.enum(END_REASONS),
    error: errorObjectSchema.nullable(),
    messageId: z.string().nullable(),
    /**
     * Present when a rollback was asked for. `struck`: the turn no longer counts. `interrupted`: it was only ended,
     * because a call with an effect had left in it, or it compacted what was before it; neither can be undone.
     */
    rollback: z.enum(["struck", "interrupted"]).optional(),
  }),
  "turn.composed": event("turn.composed", "TurnComposedEvent", {
    snapshotHash: z.string(),
    prefixHash: z.string(),
    rung: z.enum(RUNGS),
    model: z.string(),
    /** Earlier turns that the transcript does not have and this turn was told of. */
    missedTurnCount: z.int().default(0),
  }),
  "thinking.delta": event("thinking.delta", "ThinkingDeltaEvent", { offset: z.int(), text: z.string() }),
  "thinking.completed": event("thinking.completed", "ThinkingCompletedEvent", { text: z.string() }),
  "text.delta": event("text.delta", "TextDeltaEvent", { offset: z.int(), text: z.string() }),
  "text.completed": event("text.completed", "TextCompletedEvent", { text: z.string() }),
  "text.retracted": event("text.retracted", "TextRetractedEvent", { cause: z.string() }),
  "tool.started": event("tool.started", "ToolStartedEvent", {
    toolCallId: z.string(),
    toolUseId: z.string(),
    tool: z.string(),
    title: z.string(),
    effect: z.enum(EFFECT_CLASSES),
    grade: z.enum(CONTAINMENT_GRADES),
    argumentsSummary: z.string(),
    /** `client`: the caller carries it out; its hold has the arguments and takes the result. */
    executor: z.enum(["gate", "client"]).default("gate"),
  }),
  "tool.finished": event("tool.finished", "ToolFinishedEvent", {
    toolCallId: z.string(),
    toolUseId: z.string(),
    tool: z.string(),
    title: z.string(),
    effect: z.enum(EFFECT_CLASSES),
    grade: z.enum(CONTAINMENT_GRADES),
    state: z.enum(TOOL_CALL_STATES),
    resultSummary: z.string(),
    denial: z.string().nullable(),
    elapsedMs: z.int(),
  }),
  "usage.recorded": event("usage.recorded", "UsageRecordedEvent", {
    modelCallId: z.string(),
    requestedModel: z.string(),
    servedModel: z.string(),
    usage: usageShape,
    /** Integer micro-USD, or `null` when the price of the model is not known. */
    costMicros: z.int().nullable(),
    priceVersion: z.string().nullable(),
    estimated: z.boolean(),
  }),
  "hold.opened": event("hold.opened", "HoldOpenedEvent", {
    holdId: z.string(),
    kind: z.enum(HOLD_KINDS),
    subject: z.record(z.string(), z.unknown()),
    digest: z.string().nullable(),
    expiresAt: z.string().nullable(),
  }),
  "hold.decided": event("hold.decided", "HoldDecidedEvent", {
    holdId: z.string(),
    kind: z.enum(HOLD_KINDS),
    decision: z.string(),
  }),
  "hold.expired": event("hold.expired", "HoldExpiredEvent", { holdId: z.string(), kind: z.enum(HOLD_KINDS) }),
  "hold.withdrawn": event("hold.withdrawn", "HoldWithdrawnEvent", { holdId: z.string(), kind: z.enum(HOLD_KINDS) }),
  "queue.moved": event("queue.moved", "QueueMovedEvent", {
    messageId: z.string(),
    /** Runs before it; 0 once it has left the line. */
    position: z.int().min(0),
    /** Present when it left the line because this run took it in. */
    mergedInto: z.string().optional(),
  }),
} as const;

/** Types of events, `noun.verb`. */
export type EventType = keyof typeof EVENT_SCHEMAS;
/** An event as it is stored, streamed and replayed. `sequence` is `null` on a live delta. */
export type PlatformEvent = { readonly [T in EventType]: Readonly<z.infer<(typeof EVENT_SCHEMAS)[T]>> }[EventType];
/** The event of one type. */
export type EventOf<T extends EventType> = Extract<PlatformEvent, { readonly type: T }>;

/** Any event. Parse what a stream carries with it; what does not parse is of a newer release. */
export const platformEventSchema = z
  .discriminatedUnion("type", [
    EVENT_SCHEMAS["run.admitted"],
    EVENT_SCHEMAS["run.started"],
    EVENT_SCHEMAS["run.phase"],
    EVENT_SCHEMAS["run.recovered"],
    EVENT_SCHEMAS["run.suspended"],
    EVENT_SCHEMAS["run.resumed"],
    EVENT_SCHEMAS["run.finished"],
    EVENT_SCHEMAS["turn.composed"],
    EVENT_SCHEMAS["thinking.delta"],
    EVENT_SCHEMAS["thinking.completed"],
    EVENT_SCHEMAS["text.delta"],
    EVENT_SCHEMAS["text.completed"],
    EVENT_SCHEMAS["text.retracted"],
    EVENT_SCHEMAS["tool.started"],
    EVENT_SCHEMAS["tool.finished"],
    EVENT_SCHEMAS["usage.recorded"],
    EVENT_SCHEMAS["hold.opened"],
    EVENT_SCHEMAS["hold.decided"],
    EVENT_SCHEMAS["hold.expired"],
    EVENT_SCHEMAS["hold.withdrawn"],
    EVENT_SCHEMAS["queue.moved"],
  ])
  .meta({ id: "Event" });

/** The part of an event that is its own: everything but the envelope. */
export type EventData<T extends EventType> = Omit<EventOf<T>, keyof typeof envelope | "type">;

/** Events only the owner of a conversation writes, under its fence; all others are written with the fact they tell. */
export const OWNER_EVENT_TYPES = [
  "run.phase",
  "turn.composed",
  "thinking.delta",
  "thinking.completed",
  "text.delta",
  "text.completed",
  "text.retracted",
] as const satisfies readonly EventType[];
/** Types that only the owner of a conversation writes. */
export type OwnerEventType = (typeof OWNER_EVENT_TYPES)[number];

/** What an owner hands to the log; sequence and time are given by the statement that inserts it. */
export type OwnerEvent = {
  readonly [T in OwnerEventType]: {
    readonly type: T;
    readonly itemId: string;
    readonly revision: number;
    readonly data: EventData<T>;
  };
}[OwnerEventType];

/** A live delta: what readers may see before the log has it. Harmless when it overlaps with replay. */
export interface LiveDelta {
  readonly type: "text.delta" | "thinking.delta";
  readonly conversationId: string;
  readonly runId: string;
  readonly turnId: string;
  readonly generation: number;
  readonly itemId: string;
  readonly revision: number;
  /** Place of `text` within the item, in UTF-16 units. */
  readonly offset: number;
  readonly text: string;
}
