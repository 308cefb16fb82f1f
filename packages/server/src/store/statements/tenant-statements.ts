/** Statements that enter a tenant and note what was done there. */
import { sql, type RawBuilder } from "kysely";

/** Until the end of this transaction, and no longer: row-level policies compare with it. */
export function enterTenant(tenantId: string): RawBuilder<unknown> {
  return sql`select set_config('signalbox.tenant', ${tenantId}, true)`;
}

/** Whoever uses the same key waits for the end of this transaction. Two keys of one hash only wait for each other. */
export function lockKey(tenantId: string, key: string): RawBuilder<unknown> {
  return sql`select pg_advisory_xact_lock(hashtextextended(${JSON.stringify([tenantId, key])}, 0))`;
}

export interface AuditEntry {
  readonly tenantId: string;
  readonly action: string;
  /** Canonical JSON; `null`: nobody did it, the platform noticed it. */
  readonly actor: string | null;
  readonly conversationId: string | null;
  /** Canonical JSON of an object. */
  readonly facts: string;
}

export function writeAudit(entry: AuditEntry): RawBuilder<unknown> {
  return sql`select signalbox.audit(${entry.tenantId}, ${entry.action}, ${entry.actor}, ${entry.conversationId}, null,
    null, ${entry.facts})`;
}

/** Keyset comparison whose direction depends on the order of the page. */
export function beyond(column: string, order: "asc" | "desc", key: string | number): RawBuilder<boolean> {
  return order === "asc" ? sql<boolean>`${sql.ref(column)} > ${key}` : sql<boolean>`${sql.ref(column)} < ${key}`;
}

export function clock(): RawBuilder<Date> {
  return sql<Date>`signalbox.clock()`;
}
