/** Rows of tools as the record's ports name them. */
import type { EffectClass, PinState } from "@signalbox/contract";
import type { DefinitionLint, ToolClassification, ToolRecord, ToolSettings } from "@signalbox/core";
import type { Selectable } from "kysely";
import type { ToolTable } from "../tables.ts";
import type { TenantTransaction } from "../tenant-database.ts";

export type ToolRow = Selectable<ToolTable>;

const UNCLASSIFIED: EffectClass = "irreversible";

export function toolRecordOf(row: ToolRow): ToolRecord {
  const classification = classificationOf(row);
  return {
    server: row.server,
    tool: row.tool,
    title: row.title,
    definition: objectOf(row.definition),
    definitionHash: row.definition_hash,
    effect: classification.effect,
    // The table constrains it.
    state: row.state as PinState,
    origin: row.origin,
    originHash: row.origin_hash,
    seen:
      row.seen_hash === null
        ? null
        : {
            definition: objectOf(row.seen_definition),
            definitionHash: row.seen_hash,
            origin: row.seen_origin ?? "",
            originHash: row.seen_origin_hash ?? "",
          },
    isOffered: row.offered,
    // Written by `observe` from exactly this form.
    lints: row.lints as readonly DefinitionLint[],
    approvedAtMs: row.approved_at === null ? null : row.approved_at.getTime(),
    classification,
  };
}

/** What nobody has classified counts as what cannot be taken back. */
function classificationOf(row: ToolRow): ToolClassification {
  // A row of an older release names a milder class only where the operator's file did.
  const isClassified = row.classified_by !== null || row.effect !== UNCLASSIFIED;
  return {
    isClassified,
    // The table constrains both.
    effect: isClassified ? (row.effect as EffectClass) : UNCLASSIFIED,
    approve: row.approve as ToolSettings["approve"],
    isTrusted: row.trusted,
    timeoutMs: row.timeout_ms,
  };
}

export function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  // Written as an object; jsonb gives back what was put in.
  return value as Readonly<Record<string, unknown>>;
}

/** The columns that say what an operator wants. */
export function settingColumns(settings: ToolSettings | null) {
  return {
    effect: settings?.effect ?? UNCLASSIFIED,
    approve: settings?.approve ?? "policy",
    trusted: settings?.isTrusted ?? false,
    timeout_ms: settings?.timeoutMs ?? null,
  };
}

export interface PinNote {
  readonly tenantId: string;
  readonly server: string;
  readonly tool: string;
  readonly event: string;
  readonly definition: Readonly<Record<string, unknown>>;
  readonly definitionHash: string;
  readonly origin: string | null;
  readonly lints: readonly DefinitionLint[];
  /** Canonical JSON, or `null` when nobody did it. */
  readonly actor: string | null;
}

const NOTES_KEPT = 200;

/** Adds to the history of a pin; a server that changes again and again fills it no further than a bound. */
export async function notePin(transaction: TenantTransaction, note: PinNote): Promise<void> {
  const { tenantId: tenant_id, server, tool, event, origin, actor, definitionHash: definition_hash } = note;
  await transaction
    .insertInto("signalbox.tool_pin")
    .values({
      tenant_id,
      server,
      tool,
      event,
      definition: JSON.stringify(note.definition),
      definition_hash,
      origin,
      lints: JSON.stringify(note.lints),
      actor,
    })
    .execute();
  await transaction
    .deleteFrom("signalbox.tool_pin")
    .where("server", "=", server)
    .where("tool", "=", tool)
    // What people did stays.
    .where("actor", "is", null)
    .where("id", "in", (own) =>
      own
        .selectFrom("signalbox.tool_pin as older")
        .select("older.id")
        .where("older.server", "=", server)
        .where("older.tool", "=", tool)
        .orderBy("older.id", "desc")
        .offset(NOTES_KEPT),
    )
    .execute();
}
