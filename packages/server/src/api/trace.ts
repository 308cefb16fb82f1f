/** The caller's trace, as W3C Trace Context says it. */
import { randomBytes } from "node:crypto";

const TRACEPARENT = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-[0-9a-f]{2}(-.*)?$/;
const NONE = /^0+$/;

/** Trace id of a `traceparent`, also of a later version of it; a new one where there is none, or none that is valid. */
export function traceIdOf(header: string | string[] | undefined): string {
  const match = typeof header === "string" ? TRACEPARENT.exec(header) : null;
  const [, version, traceId = "", parentId = "", rest] = match ?? [];
  const valid =
    match !== null &&
    version !== "ff" &&
    !(version === "00" && rest !== undefined) &&
    !NONE.test(traceId) &&
    !NONE.test(parentId);
  return valid ? traceId : randomBytes(16).toString("hex");
}
