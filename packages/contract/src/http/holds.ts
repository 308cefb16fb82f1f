import { z } from "zod";
import { HOLD_KINDS, HOLD_STATES } from "../run.ts";
import { pageOf } from "./page.ts";
import { timeSchema } from "./time.ts";

/** A hold as the API shows it: what a run, or a client's call, waits for, and what became of it. */
export const holdSchema = z
  .object({
    id: z.string(),
    /** `null` for what belongs to no run. */
    conversationId: z.string().nullable(),
    runId: z.string().nullable(),
    /** The call of a client of the gateway that it is about, or `null`. */
    gatewayCallId: z.string().nullable().default(null),
    kind: z.enum(HOLD_KINDS),
    /** What is asked, in the words of its kind. */
    subject: z.record(z.string(), z.unknown()),
    /** Names exactly what is asked; a decision about it carries this digest. `null` when there is nothing to compare. */
    digest: z.string().nullable(),
    state: z.enum(HOLD_STATES),
    /** What was decided; `null` unless its state is `decided`. */
    decision: z.string().nullable(),
    /** What the decision brought along, or `null`. */
    response: z.unknown(),
    /** Who decided; `null` when nobody did. */
    decidedBy: z.object({ keyId: z.string(), user: z.string().nullable() }).nullable(),
    openedAt: timeSchema,
    /** From when on it is expired unless it was decided, or `null` when it waits for ever. */
    expiresAt: timeSchema.nullable(),
    /** When it stopped being open, or `null` while it is. */
    decidedAt: timeSchema.nullable(),
  })
  .meta({ id: "Hold" });

/** The one thing a run waits for. */
export type Hold = z.infer<typeof holdSchema>;

/** A page of holds. */
export const holdPageSchema = pageOf(holdSchema, "HoldPage");

/** Verbs of a decision; which of them a hold takes depends on its kind. */
export const DECISIONS = ["approve", "edit", "reject", "respond", "resume"] as const;
/** A verb of a decision. */
export type Decision = (typeof DECISIONS)[number];

/**
 * Body of `POST /v1/holds/{hold}/decision`. Errors: `approval_changed` with the present `digest`, `hold_closed`,
 * `command_refused` (this hold does not take that verb).
 */
export const decisionSchema = z
  .strictObject({
    decision: z.enum(DECISIONS),
    /**
     * What the verb brings along: for `reject` `{reason}` or nothing, for `edit` `{arguments}`, for `respond` the answer (of
     * a call that a client carries out `{content, isError}`, of an approval a text). At most 64 KiB as JSON.
     */
    response: z.unknown().optional(),
    /** Digest of what the decider was shown. Needed when the hold has one. */
    digest: z.string().max(200).optional(),
  })
  .meta({ id: "DecideHold", examples: [{ decision: "resume" }, { decision: "respond", response: { answer: "42" } }] });

/** What somebody decides about a hold. */
export type DecideHold = z.infer<typeof decisionSchema>;

/** How much a client may say a call came to, as JSON. */
const CLIENT_RESULT_CHARS = 40_000;

/**
 * Body of `POST /v1/tool-calls/{call}/result`: what came of a call that a client has carried out. The first answer
 * stands. Errors: `not_found` (no such call, or none that a client carries out), `hold_closed` (nobody waits any more).
 */
export const clientResultSchema = z
  .strictObject({
    /** What the model gets to read. */
    content: z.string().max(CLIENT_RESULT_CHARS),
    /** Whether it failed. */
    isError: z.boolean().default(false),
  })
  .meta({ id: "ClientResult", examples: [{ content: "The page is open." }] });

/** What came of a call that a client has carried out. */
export type ClientResult = z.infer<typeof clientResultSchema>;

/** Answer to a decision. `already_decided`: an earlier decision stands, and this is the hold as that one left it. */
export const decidedHoldSchema = z
  .object({ outcome: z.enum(["decided", "already_decided"]), hold: holdSchema })
  .meta({ id: "DecidedHold" });

/** Answer to a decision. */
export type DecidedHold = z.infer<typeof decidedHoldSchema>;
