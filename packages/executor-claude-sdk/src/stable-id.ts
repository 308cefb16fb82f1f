import { createHash } from "node:crypto";

/**
 * A UUID (version 8) made from names: the same names give the same id on every worker. The engine takes it as the
 * id of its session, and of the transcript row a message becomes.
 */
export function uuidFrom(...names: readonly string[]): UuidText {
  const bytes = createHash("sha256").update(JSON.stringify(names)).digest().subarray(0, 16);
  bytes[6] = 0x80 | ((bytes[6] ?? 0) & 0x0f);
  bytes[8] = 0x80 | ((bytes[8] ?? 0) & 0x3f);
  const hex = bytes.toString("hex");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

export type UuidText = `${string}-${string}-${string}-${string}-${string}`;
