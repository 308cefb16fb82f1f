/** An audit entry is written in the transaction that changes the state it tells of, as canonical bytes. */
import { canonicalJson, type Actor, type AuditAction } from "@signalbox/contract";
import { utf8 } from "./utf8.ts";

export interface AuditEntry {
  readonly action: AuditAction;
  readonly tenantId: string;
  readonly actor: Actor | null;
  readonly conversationId: string | null;
  readonly runId: string | null;
  readonly generation: number | null;
  /** What this action tells besides; strings, integers, booleans, `null` and structures of them. */
  readonly facts: Readonly<Record<string, unknown>>;
}

const ENTRY_VERSION = 1;

/** RFC 8785 over the entry, in UTF-8. The same entry has the same bytes in every language. */
export function auditBytes(entry: AuditEntry): Uint8Array {
  return utf8(canonicalJson({ version: ENTRY_VERSION, ...entry }));
}
