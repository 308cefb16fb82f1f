import { z } from "zod";
import { RUN_STATES, STOP_KINDS, STOP_SCOPES } from "../run.ts";
import { pageOf } from "./page.ts";
import { timeSchema } from "./time.ts";
import { waitSchema } from "./wait.ts";

/**
 * Body of `POST /v1/stops`. Errors: `not_found` (nothing of that id), `permission_denied` (a key that speaks for an end
 * user stops no agent and no tenant).
 */
export const createStopSchema = z
  .strictObject({
    kind: z.enum(STOP_KINDS),
    scope: z.enum(STOP_SCOPES),
    /** Id of the run, conversation or agent (or the agent's name). Left out for the tenant. */
    id: z.string().min(1).max(64).optional(),
    /** Shown to whoever asks why nothing moves. */
    reason: z.string().max(500).nullable().default(null),
  })
  .meta({
    id: "CreateStop",
    examples: [
      { kind: "pause", scope: "agent", id: "support", reason: "Looking into it." },
      { kind: "stop", scope: "tenant" },
    ],
  });

/** What is to be paused or stopped. */
export type CreateStop = z.infer<typeof createStopSchema>;

/** A pause or a stop. */
export const stopSchema = z
  .object({
    id: z.string(),
    kind: z.enum(STOP_KINDS),
    scope: z.enum(STOP_SCOPES),
    /** Id of what it is about; of a tenant, its name. */
    subject: z.string(),
    reason: z.string().nullable(),
    createdAt: timeSchema,
    /** When it was lifted, or `null` while it stands. */
    liftedAt: timeSchema.nullable(),
  })
  .meta({ id: "Stop" });

/** A pause or a stop. */
export type Stop = z.infer<typeof stopSchema>;

/** A page of pauses and stops. */
export const stopPageSchema = pageOf(stopSchema, "StopPage");

/**
 * Body of `POST /v1/runs/{run}/retry` and `…/fail`. Errors: `command_refused` with the reason; `force` does it all the
 * same where that can be answered for.
 */
export const forceSchema = z
  .strictObject({ force: z.boolean().default(false) })
  .meta({ id: "Force", examples: [{}, { force: true }] });

/** Whether to go against a warning. */
export type Force = z.infer<typeof forceSchema>;

/** Answer to `GET /v1/runs/{run}/explain`: why a run does not move, as a sentence and as the facts behind it. */
export const explanationSchema = z
  .object({
    runId: z.string(),
    conversationId: z.string(),
    state: z.enum(RUN_STATES),
    /** Why it does not move, or that it does. */
    summary: z.string(),
    /** What happens next, and what an operator could do. */
    next: z.string(),
    generation: z.int(),
    attempt: z.int(),
    runtime: z.string(),
    /** Since when it is in this state, as far as the record knows. */
    since: timeSchema,
    /** The process that drives it, or `null`. */
    owner: z
      .object({
        process: z.int(),
        /** Time since its last heartbeat, by the database's clock. */
        leaseAgeMs: z.int(),
        /** Whether its lease runs. */
        leaseHeld: z.boolean(),
        /** Whether its session holds the lock that stands for its presence. */
        present: z.boolean(),
        /** Whether it was declared dead. */
        dead: z.boolean(),
      })
      .nullable(),
    cancelRequestedAt: timeSchema.nullable(),
    waitingFor: z.array(waitSchema),
    /** Calls that have left and have no outcome yet. */
    openCalls: z.array(
      z.object({
        id: z.string(),
        kind: z.enum(["model", "tool"]),
        name: z.string(),
        since: timeSchema,
        gate: z.int(),
        /** Whether the gate that must tell the outcome was declared dead. */
        gateDead: z.boolean(),
      }),
    ),
    /** Runs before it in its conversation; `null` unless it waits in line. */
    queuePlace: z.int().nullable(),
    /** Pauses and stops that stand over it. */
    stops: z.array(z.object({ id: z.string(), kind: z.enum(STOP_KINDS), scope: z.enum(STOP_SCOPES) })),
  })
  .meta({ id: "Explanation" });

/** Why a run does not move. */
export type Explanation = z.infer<typeof explanationSchema>;

/** What the record owes: begun and not confirmed. */
export const OBLIGATION_KINDS = ["model_call", "tool_call", "admitted_run", "finalizing_run", "overdue_hold"] as const;
/** A kind of obligation. */
export type ObligationKind = (typeof OBLIGATION_KINDS)[number];

/** Answer to `GET /v1/obligations`: what was recorded and is not confirmed, oldest first. */
export const obligationListSchema = z
  .object({
    data: z.array(
      z.object({
        kind: z.enum(OBLIGATION_KINDS),
        id: z.string(),
        conversationId: z.string(),
        runId: z.string(),
        since: timeSchema,
        ageMs: z.int(),
      }),
    ),
    nextCursor: z.null(),
  })
  .meta({ id: "ObligationList" });

/** What was recorded and is not confirmed. */
export type Obligations = z.infer<typeof obligationListSchema>;
