import { z } from "zod";
import { EFFECT_CLASSES, RECONCILED_OUTCOMES, TOOL_CALL_STATES } from "../run.ts";
import { timeSchema } from "./time.ts";

/** A call of a tool as the ledger has it: what was proposed, judged, approved, carried out, and what it came to. */
export const toolCallSchema = z
  .object({
    id: z.string(),
    conversationId: z.string(),
    runId: z.string(),
    /** The model's own id of the call. */
    toolUseId: z.string(),
    name: z.string(),
    title: z.string(),
    server: z.string().nullable(),
    tool: z.string().nullable(),
    effect: z.enum(EFFECT_CLASSES),
    state: z.enum(TOOL_CALL_STATES),
    /** As the model proposed them. */
    arguments: z.unknown(),
    /** As a person changed them; `null` when nobody did. */
    editedArguments: z.unknown(),
    definitionHash: z.string().nullable(),
    verdict: z.string().nullable(),
    policyVersion: z.string().nullable(),
    rules: z.array(z.string()),
    /** The approval that was asked for it, or `null`. */
    approvalId: z.string().nullable(),
    /** The MCP result as the model read it; `null` while there is none. */
    result: z.unknown(),
    denial: z.string().nullable(),
    errorCode: z.string().nullable(),
    /** The call of the same run whose outcome this one was given instead of being carried out. */
    replayOf: z.string().nullable(),
    attempt: z.int(),
    proposedAt: timeSchema,
    startedAt: timeSchema.nullable(),
    finishedAt: timeSchema.nullable(),
    /** Who settled an outcome that was not known, and why; `null` when nobody had to. */
    reconciliation: z
      .object({
        by: z.object({ keyId: z.string(), user: z.string().nullable() }),
        at: timeSchema,
        note: z.string().nullable(),
      })
      .nullable(),
  })
  .meta({ id: "ToolCall" });

/** A call of a tool as the ledger has it. */
export type LedgerCall = z.infer<typeof toolCallSchema>;

/** Body of `POST /v1/tool-calls/{call}/reconcile`. Errors: `command_refused` when the outcome is known already. */
export const reconcileSchema = z
  .strictObject({
    outcome: z.enum(RECONCILED_OUTCOMES),
    /** What the tool said, when that is known; text for the model. */
    result: z.string().max(40_000).optional(),
    /** What was found, for the audit. */
    note: z.string().max(2_000).optional(),
  })
  .meta({ id: "ReconcileToolCall", examples: [{ outcome: "succeeded", note: "The bank shows the transfer." }] });

/** What somebody found out about a call whose outcome was not known. */
export type ReconcileToolCall = z.infer<typeof reconcileSchema>;
