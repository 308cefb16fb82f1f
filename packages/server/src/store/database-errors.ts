/** The one place of the store where errors of PostgreSQL and its driver become ours. */
import { isErrorCode, PlatformError } from "@signalbox/contract";

/** SQLSTATE classes and codes that mean: nothing was changed, and asking again may succeed. */
const AWAY = /^(08|57P0|53|25006$|40001$|40P01$|55P03$|57014$|25P03$)/;
/** A rule of a table refused the row; the message is the code. */
const REFUSED = "SB001";
/** What Node says when the way to the server is cut. */
const CUT: ReadonlySet<string> = new Set([
  "ECONNREFUSED",
  "ECONNRESET",
  "EPIPE",
  "ENOENT",
  "ETIMEDOUT",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "EAI_AGAIN",
]);
/** What the driver throws without a code. */
const DRIVER_LOST =
  /Connection terminated|Client has encountered a connection error|timeout exceeded when trying to connect|Query read timeout/;

export function sqlState(thrown: unknown): string | null {
  return thrown instanceof Error && "code" in thrown && typeof thrown.code === "string" ? thrown.code : null;
}

/** Name of the violated constraint, or `null` when this is no such error. */
export function violatedConstraint(thrown: unknown): string | null {
  const violated = sqlState(thrown)?.startsWith("23") === true;
  return violated && thrown instanceof Error && "constraint" in thrown && typeof thrown.constraint === "string"
    ? thrown.constraint
    : null;
}

export function translateDatabaseError(thrown: unknown): PlatformError {
  if (thrown instanceof PlatformError) {
    return thrown;
  }
  const code = sqlState(thrown);
  if (code === REFUSED && thrown instanceof Error && isErrorCode(thrown.message)) {
    return new PlatformError(thrown.message, undefined, { cause: thrown });
  }
  const lost = thrown instanceof Error && DRIVER_LOST.test(thrown.message);
  if (lost || (code !== null && (AWAY.test(code) || CUT.has(code)))) {
    return new PlatformError("database_unavailable", undefined, { cause: thrown });
  }
  return new PlatformError("internal", undefined, { cause: thrown });
}

/** The statement took longer than it may. */
export function isOutOfTime(thrown: unknown): boolean {
  return sqlState(thrown) === "57014";
}
