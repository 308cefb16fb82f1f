import type { ApiWorld } from "../../setup/api-world.ts";

export interface AuditEntry {
  readonly action: string;
  readonly actor: { readonly keyId: string; readonly user: string | null } | null;
  readonly conversationId: string | null;
  readonly facts: Readonly<Record<string, unknown>>;
}

/** Entries of this action, oldest first. */
export async function auditOf(world: ApiWorld, action: string): Promise<readonly AuditEntry[]> {
  const rows = await world.rows<{ bytes: Buffer }>(
    "select bytes from signalbox.audit_pending where action = $1 order by id",
    [action],
  );
  // What the platform wrote; the tests look into it.
  return rows.map(({ bytes }) => JSON.parse(bytes.toString("utf8")) as AuditEntry);
}
