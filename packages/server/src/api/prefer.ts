/** `Prefer: wait=…` (RFC 7240): how long the caller would rather wait for the result than be told it will come. */

/** Whoever asks for longer is answered after this, with 202 if need be. */
export const WAIT_LIMIT_SECONDS = 60;

const WAIT = /^wait\s*=\s*"?([0-9]{1,9})"?$/i;

/** Seconds, or `null` where nothing is preferred. A preference that cannot be read is none, as the standard says. */
export function preferredWait(header: string | string[] | undefined): number | null {
  const preferences = (Array.isArray(header) ? header.join(",") : (header ?? "")).split(",");
  for (const each of preferences) {
    const seconds = WAIT.exec(each.split(";")[0]?.trim() ?? "")?.[1];
    if (seconds !== undefined) return Math.min(Number(seconds), WAIT_LIMIT_SECONDS);
  }
  return null;
}
