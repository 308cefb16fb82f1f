import { z } from "zod";

const LIMIT_MAX = 200;
const LIMIT_DEFAULT = 50;

/** A whole number in decimal digits: nothing else that a number could be read from. */
const limitSchema = z
  .string()
  .regex(/^[0-9]{1,9}$/, `must be a whole number from 1 to ${LIMIT_MAX}`)
  .transform(Number)
  .pipe(z.int().min(1).max(LIMIT_MAX))
  .default(LIMIT_DEFAULT)
  .meta({ override: { type: "integer", minimum: 1, maximum: LIMIT_MAX, default: LIMIT_DEFAULT } });

/**
 * The query of every list: `limit` 1 to 200 (default 50), `cursor` from the page before, `order` by creation (default
 * `desc`). Errors: `invalid_request` naming the parameter, `invalid_cursor`.
 */
export const pageQuerySchema = z.strictObject({
  limit: limitSchema,
  cursor: z.string().min(1).max(512).optional(),
  order: z.enum(["asc", "desc"]).default("desc"),
});

/** A list's query with its defaults filled in. Without `cursor` it asks for the first page. */
export type PageQuery = z.infer<typeof pageQuerySchema>;

/** One page of a list; `nextCursor` is opaque, and `null` on the last page. */
export function pageOf<T extends z.ZodType>(item: T, id: string) {
  return z.object({ data: z.array(item), nextCursor: z.string().nullable() }).meta({ id });
}
