import { z } from "zod";
import { EFFECT_CLASSES, HOLD_STATES } from "../run.ts";
import { pageOf } from "./page.ts";
import { timeSchema } from "./time.ts";

/** A call that somebody is asked about, as the API shows it: everything there is to know before deciding. */
export const approvalSchema = z
  .object({
    /** The same as that of its hold. */
    id: z.string(),
    /** `null` for a call that a client of the gateway makes without a run. */
    conversationId: z.string().nullable(),
    runId: z.string().nullable(),
    /** The call of a client of the gateway, or `null` for the call of a run. */
    gatewayCallId: z.string().nullable().default(null),
    toolCallId: z.string().nullable(),
    /** As the model knows the tool. */
    name: z.string(),
    server: z.string().nullable(),
    tool: z.string().nullable(),
    title: z.string(),
    effect: z.enum(EFFECT_CLASSES),
    /** How far the call is contained while it runs. */
    grade: z.string(),
    /** Complete, and exactly what is carried out when it is approved. */
    arguments: z.unknown(),
    definitionHash: z.string().nullable(),
    /** Why it is asked. */
    reason: z.string().nullable(),
    /** Ids of the rules that ask. */
    rules: z.array(z.string()),
    /** Where the values of the arguments come from. */
    origins: z.array(z.unknown()),
    /** Who may approve: anyone with the right, or only somebody else than who asked for the run. */
    approver: z.enum(["anyone", "other"]),
    agentRevision: z.int().nullable(),
    policyVersion: z.string().nullable(),
    /** Names exactly what is asked; a decision carries it. */
    digest: z.string().nullable(),
    state: z.enum(HOLD_STATES),
    decision: z.string().nullable(),
    /** What the decision brought along, or `null`. */
    response: z.unknown(),
    decidedBy: z.object({ keyId: z.string(), user: z.string().nullable() }).nullable(),
    openedAt: timeSchema,
    expiresAt: timeSchema.nullable(),
    decidedAt: timeSchema.nullable(),
  })
  .meta({ id: "Approval" });

/** A call that somebody is asked about. */
export type Approval = z.infer<typeof approvalSchema>;

/** A page of approvals. */
export const approvalPageSchema = pageOf(approvalSchema, "ApprovalPage");

/** Verbs of a decision about a call. */
export const APPROVAL_DECISIONS = ["approve", "edit", "reject", "respond"] as const;

/**
 * Body of `POST /v1/approvals/{approval}/decision`. Errors: `approval_changed` with the present `digest`, `hold_closed`,
 * `tool_arguments_invalid` (changed arguments do not fit the tool), `permission_denied` (somebody else has to decide).
 */
export const decideApprovalSchema = z
  .strictObject({
    decision: z.enum(APPROVAL_DECISIONS),
    /** Digest of what the decider was shown. */
    digest: z.string().max(200),
    /** Why it is rejected, for the model to read. */
    reason: z.string().max(2_000).optional(),
    /** For `edit`: what the tool is called with instead. */
    arguments: z.record(z.string(), z.unknown()).optional(),
    /** For `respond`: what the model reads in place of a result. */
    response: z.string().max(40_000).optional(),
  })
  .meta({
    id: "DecideApproval",
    examples: [
      { decision: "approve", digest: "5f0c" },
      { decision: "reject", digest: "5f0c", reason: "Ask the customer first." },
      { decision: "edit", digest: "5f0c", arguments: { amount: 10 } },
    ],
  });

/** What somebody decides about a call. */
export type DecideApproval = z.infer<typeof decideApprovalSchema>;

/** Answer to a decision. `already_decided`: an earlier decision stands, and this is the approval as that one left it. */
export const decidedApprovalSchema = z
  .object({ outcome: z.enum(["decided", "already_decided"]), approval: approvalSchema })
  .meta({ id: "DecidedApproval" });

/** Answer to a decision about a call. */
export type DecidedApproval = z.infer<typeof decidedApprovalSchema>;
