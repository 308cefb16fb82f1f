/** A tool's name on the model's wire: `server__tool`, within what every provider accepts. */
import { createHash } from "node:crypto";

const LIMIT = 64;
/** The Claude CLI puts `mcp__signalbox__` before it. */
const PREFIX_ROOM = "mcp__signalbox__".length;
const HASH_CHARS = 8;

/**
 * Two tools never get one name: a name that had to be changed ends in a digest of the original, so `a.b` and `a_b`, or
 * two long names that differ only at their end, stay apart.
 */
export function wireName(server: string, tool: string): string {
  const plain = `${server}__${tool}`;
  const safe = plain.replaceAll(/[^a-zA-Z0-9_-]/g, "_");
  const room = LIMIT - PREFIX_ROOM;
  if (safe === plain && safe.length <= room) return safe;
  const digest = createHash("sha256").update(`${server}\u0000${tool}`).digest("hex").slice(0, HASH_CHARS);
  return `${safe.slice(0, room - HASH_CHARS - 1)}_${digest}`;
}
