/** Shapes every route shares. */
import { z } from "zod";

export const problemSchema = z
  .object({
    type: z.string(),
    title: z.string(),
    status: z.int(),
    detail: z.string(),
    instance: z.string(),
    code: z.string(),
    fault: z.enum(["caller", "policy", "provider", "platform"]),
    retryable: z.boolean(),
    requestId: z.string(),
    errors: z.array(z.object({ pointer: z.string(), detail: z.string() })),
    activeRunId: z.string().optional(),
  })
  .meta({ id: "Problem", description: "RFC 9457 problem details with the platform's own members." });
export type Problem = z.infer<typeof problemSchema>;

/** Times are RFC 3339 UTC with milliseconds. */
export const timeSchema = z.iso.datetime({ precision: 3 });

export const pageQuerySchema = z.strictObject({
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z.string().max(512).optional(),
  order: z.enum(["asc", "desc"]).default("desc"),
});
export type PageQuery = z.infer<typeof pageQuerySchema>;

export function pageOf<T extends z.ZodType>(item: T, id: string) {
  return z.object({ data: z.array(item), nextCursor: z.string().nullable() }).meta({ id });
}

/** Who asks, as the product asserts it in `Signalbox-Actor`. */
export const actorClaimSchema = z.strictObject({
  user: z.string().min(1).max(256),
  roles: z.array(z.string().min(1).max(64)).max(32).default([]),
  units: z.array(z.string().min(1).max(64)).max(32).default([]),
});
export type ActorClaim = z.infer<typeof actorClaimSchema>;

export const errorObjectSchema = z
  .object({
    code: z.string(),
    detail: z.string(),
    fault: z.enum(["caller", "policy", "provider", "platform"]),
    retryable: z.boolean(),
  })
  .meta({ id: "ErrorObject" });
