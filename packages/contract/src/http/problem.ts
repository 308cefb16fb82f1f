import { z } from "zod";

/** Whose doing an error is: what the caller sent, what a rule forbids, a provider, or the platform itself. */
const faultSchema = z.enum(["caller", "policy", "provider", "platform"]);

/**
 * What every error is answered with (RFC 9457, `application/problem+json`): the standard members and the platform's
 * own. `type` is an address that resolves on the platform; `errors` names the fields at fault, at most 32 of them.
 */
export const problemSchema = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    instance: z.string(),
    /** A code of the error table. Clients know it by this, never by the text. */
    code: z.string(),
    fault: faultSchema,
    /** Whether the same request can succeed later without being changed. */
    retryable: z.boolean(),
    requestId: z.string(),
    errors: z.array(z.object({ pointer: z.string(), detail: z.string() })),
    /** With `conversation_busy`: the run that is being answered. */
    activeRunId: z.string().optional(),
    /** With `cursor_expired` and `cursor_lost` of a conversation: the oldest cursor that still works. */
    keptSequence: z.int().optional(),
    /** With `cursor_expired` and `cursor_lost`: where to begin again. */
    eventsUrl: z.string().optional(),
    /** With a code of status 429: the limit that was reached. */
    limit: z.int().optional(),
  })
  .meta({ id: "Problem", description: "RFC 9457 problem details with the platform's own members." });

/** An error as it is answered over HTTP. */
export type Problem = z.infer<typeof problemSchema>;

/** An error inside another document: of a run, and of its `run.finished`. */
export const errorObjectSchema = z
  .object({
    code: z.string(),
    detail: z.string(),
    fault: faultSchema,
    retryable: z.boolean(),
  })
  .meta({ id: "ErrorObject" });
