import type { AuditAction } from "@signalbox/contract";
import { auditBytes } from "@signalbox/core";
import type { MemoryDatabase } from "./database.ts";
import type { RunRow } from "./rows.ts";

/** One row in the transaction of the state it tells of. */
export function writeAudit(
  db: MemoryDatabase,
  action: AuditAction,
  about: {
    readonly run: RunRow;
    readonly generation: number | null;
    readonly facts?: Readonly<Record<string, unknown>>;
  },
): void {
  const { run, generation } = about;
  const bytes = auditBytes({
    action,
    tenantId: run.tenantId,
    actor: run.actor,
    conversationId: run.conversationId,
    runId: run.id,
    generation,
    facts: about.facts ?? {},
  });
  const entry = { action, conversationId: run.conversationId, runId: run.id, generation, bytes };
  db.audit.set(String(db.audit.all().length + 1), entry);
}
