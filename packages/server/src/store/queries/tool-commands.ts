/** What operators decide about tools, and what they look at before. */
import { PlatformError, type Actor } from "@signalbox/contract";
import type { PinHistoryEntry, ToolRecord, ToolSettings } from "@signalbox/core";
import { actorText } from "../actor-text.ts";
import { clock } from "../statements/tenant-statements.ts";
import type { Tenants, TenantTransaction } from "../tenant-database.ts";
import { audit, auditedChanges } from "./tool-queries.ts";
import { recordOnce, type Once, type Recorded } from "./once.ts";
import { notePin, settingColumns, toolRecordOf, type ToolRow } from "./tool-rows.ts";

export interface ToolPlace {
  readonly tenantId: string;
  readonly server: string;
  readonly tool: string;
}

export interface McpServerRow {
  readonly server: string;
  readonly transport: string;
  readonly origin: string;
  readonly listedAtMs: number | null;
  readonly failingSinceMs: number | null;
  readonly problem: string | null;
  readonly leftOut: readonly { readonly tool: string; readonly problem: string }[];
  readonly seenAtMs: number;
}

const HISTORY_COUNT = 100;

export class ToolCommands {
  readonly #database: Tenants;

  constructor(database: Tenants) {
    this.#database = database;
  }

  /**
   * Pins a tool as it was listed last, once somebody has looked at exactly that. `isShown` says whether they did.
   * Errors: `not_found`, `approval_changed`.
   */
  async approve(
    place: ToolPlace & { readonly actor: Actor },
    isShown: (record: ToolRecord) => boolean,
    once: Once<ToolRecord> | null = null,
  ): Promise<Recorded<ToolRecord>> {
    return this.#once(place.tenantId, once, async (transaction) => {
      const row = await locked(transaction, place);
      const record = toolRecordOf(row);
      if (!isShown(record)) {
        throw new PlatformError("approval_changed", "The tool is listed in another form than was shown. Look again.");
      }
      if (record.state === "approved" && record.seen === null) return record;
      await transaction
        .updateTable("signalbox.tool")
        .set({ ...approvedForm(row), state: "approved", approved_at: clock(), approved_by: actorText(place.actor) })
        .where("server", "=", place.server)
        .where("tool", "=", place.tool)
        .execute();
      await tellApproval(transaction, place, record);
      return toolRecordOf(await locked(transaction, place));
    });
  }

  /** What the operator says of a tool from now on. Errors: `not_found`. */
  async classify(
    place: ToolPlace & { readonly actor: Actor },
    change: Partial<ToolSettings>,
    once: Once<ToolRecord> | null = null,
  ): Promise<Recorded<ToolRecord>> {
    return this.#once(place.tenantId, once, async (transaction) => {
      const before = toolRecordOf(await locked(transaction, place)).classification;
      const { isClassified: _before, ...standing } = before;
      const settings: ToolSettings = { ...standing, ...change };
      await transaction
        .updateTable("signalbox.tool")
        .set({ ...settingColumns(settings), classified_by: "operator" })
        .where("server", "=", place.server)
        .where("tool", "=", place.tool)
        .execute();
      const { tenantId, server, tool } = place;
      const facts = { server, tool, by: "operator", before, settings };
      await audit(transaction, { tenantId, action: "tool_classified", actor: actorText(place.actor), facts });
      return toolRecordOf(await locked(transaction, place));
    });
  }

  #once(
    tenantId: string,
    once: Once<ToolRecord> | null,
    command: (transaction: TenantTransaction) => Promise<ToolRecord>,
  ): Promise<Recorded<ToolRecord>> {
    return this.#database.transaction(tenantId, (transaction) =>
      recordOnce(transaction, { tenantId, once }, () => command(transaction)),
    );
  }

  async list(tenantId: string): Promise<readonly ToolRecord[]> {
    const rows = await this.#database.transaction(tenantId, (transaction) =>
      transaction.selectFrom("signalbox.tool").selectAll().orderBy("server").orderBy("tool").execute(),
    );
    return rows.map(toolRecordOf);
  }

  /** Newest first. */
  async history({ tenantId, server, tool }: ToolPlace): Promise<readonly PinHistoryEntry[]> {
    const rows = await this.#database.transaction(tenantId, (transaction) =>
      transaction
        .selectFrom("signalbox.tool_pin")
        .select(["event", "definition_hash", "origin", "actor", "at"])
        .where("server", "=", server)
        .where("tool", "=", tool)
        .orderBy("id", "desc")
        .limit(HISTORY_COUNT)
        .execute(),
    );
    return rows.map((row) => ({
      // The table constrains it.
      event: row.event as PinHistoryEntry["event"],
      definitionHash: row.definition_hash,
      origin: row.origin,
      actor: row.actor,
      atMs: row.at.getTime(),
    }));
  }

  async servers(tenantId: string): Promise<readonly McpServerRow[]> {
    const rows = await this.#database.transaction(tenantId, (transaction) =>
      transaction.selectFrom("signalbox.mcp_server").selectAll().orderBy("server").execute(),
    );
    return rows.map((row) => ({
      server: row.server,
      transport: row.transport,
      origin: row.origin,
      listedAtMs: row.listed_at === null ? null : row.listed_at.getTime(),
      failingSinceMs: row.failing_since === null ? null : row.failing_since.getTime(),
      problem: row.problem,
      // Written by `observe` from exactly this form.
      leftOut: row.left_out as McpServerRow["leftOut"],
      seenAtMs: row.seen_at.getTime(),
    }));
  }
}

async function locked(transaction: TenantTransaction, { server, tool }: ToolPlace): Promise<ToolRow> {
  const row = await transaction
    .selectFrom("signalbox.tool")
    .selectAll()
    .where("server", "=", server)
    .where("tool", "=", tool)
    .forUpdate()
    .executeTakeFirst();
  if (row === undefined) throw new PlatformError("not_found");
  return row;
}

function approvedForm(row: ToolRow) {
  if (row.seen_hash === null) return {};
  // `observe` stored an object.
  const { title, name } = row.seen_definition as { readonly title?: unknown; readonly name?: unknown };
  return {
    title: typeof title === "string" ? title : typeof name === "string" ? name : row.title,
    definition: JSON.stringify(row.seen_definition),
    definition_hash: row.seen_hash,
    origin: row.seen_origin,
    origin_hash: row.seen_origin_hash,
    seen_definition: null,
    seen_hash: null,
    seen_origin: null,
    seen_origin_hash: null,
  };
}

async function tellApproval(
  transaction: TenantTransaction,
  place: ToolPlace & { readonly actor: Actor },
  record: ToolRecord,
): Promise<void> {
  const { tenantId, server, tool } = place;
  const { definition, definitionHash } = record.seen ?? record;
  const origin = record.seen?.origin ?? record.origin;
  const actor = actorText(place.actor);
  const { lints } = record;
  await notePin(transaction, {
    tenantId,
    server,
    tool,
    event: "approve",
    definition,
    definitionHash,
    origin,
    lints,
    actor,
  });
  const facts = {
    changes: auditedChanges(record.definition, definition),
    definitionHash,
    formerHash: record.definitionHash,
    lints: lints.map(({ code }) => code),
    origin,
    server,
    tool,
  };
  await audit(transaction, { tenantId, action: "tool_approved", actor, facts });
}
