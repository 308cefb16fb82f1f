/** Query and body of a request, parsed at the edge by the route's own schemas. What a route does not know is refused. */
import { PlatformError, wellFormedJson } from "@signalbox/contract";
import { z } from "zod";
import { fromBodyIssues, fromQueryIssues } from "./problem.ts";

const NOTHING = z.strictObject({});

/** Errors: `field_unknown` and `invalid_request`, naming the parameter. */
export function parseQuery(schema: z.ZodType | null, query: unknown): unknown {
  const given = typeof query === "object" && query !== null ? query : {};
  const doubled = Object.entries(given).filter(([, value]) => Array.isArray(value));
  if (doubled.length > 0) {
    const fields = doubled.map(([name]) => ({ pointer: name, detail: "is given more than once" }));
    const names = doubled.map(([name]) => name).join(", ");
    throw new PlatformError("invalid_request", `A parameter may be given only once: ${names}.`, { fields });
  }
  const parsed = (schema ?? NOTHING).safeParse(wellFormedJson({ ...given }));
  if (!parsed.success) throw fromQueryIssues(parsed.error);
  return schema === null ? null : parsed.data;
}

/** Errors: `field_unknown` and `invalid_request`, naming the field. A route without a body takes `{}` or none. */
export function parseBody(schema: z.ZodType | null, body: unknown): unknown {
  if (schema === null) {
    const parsed = NOTHING.safeParse(body ?? {});
    if (!parsed.success) throw fromBodyIssues(parsed.error);
    return null;
  }
  if (body === undefined) {
    const detail = "This address needs a body of the type application/json.";
    throw new PlatformError("invalid_request", detail, { fields: [{ pointer: "", detail: "is missing" }] });
  }
  const parsed = schema.safeParse(body);
  if (!parsed.success) throw fromBodyIssues(parsed.error);
  return parsed.data;
}
