/** Pins of tools, and what listings make of them. */
import { canonicalJson, clip } from "@signalbox/contract";
import {
  diffDefinitions,
  judgeListing,
  type ListedDefinition,
  type PinChange,
  type PinEvent,
  type ServerListing,
  type ServerPlace,
  type ToolRecord,
  type ToolStore,
} from "@signalbox/core";
import { clock, lockKey, writeAudit } from "../statements/tenant-statements.ts";
import type { Tenants, TenantTransaction } from "../tenant-database.ts";
import { notePin, objectOf, settingColumns, toolRecordOf, type ToolRow } from "./tool-rows.ts";

const AUDITED: Readonly<Record<PinEvent, string>> = {
  trust: "tool_pinned",
  hold: "tool_quarantined",
  move: "tool_quarantined",
  drift: "tool_drifted",
  restore: "tool_restored",
  approve: "tool_approved",
};
const CHANGES_AUDITED = 20;
const VALUE_CHARS = 500;
const PROBLEM_CHARS = 500;

export class ToolQueries implements ToolStore {
  readonly #database: Tenants;

  constructor(database: Tenants) {
    this.#database = database;
  }

  async list(tenantId: string): Promise<readonly ToolRecord[]> {
    const rows = await this.#database.transaction(tenantId, (transaction) =>
      transaction.selectFrom("signalbox.tool").selectAll().orderBy("server").orderBy("tool").execute(),
    );
    return rows.map(toolRecordOf);
  }

  async observe(listing: ServerListing): Promise<readonly ToolRecord[]> {
    const { tenantId, server } = listing;
    return this.#database.transaction(tenantId, async (transaction) => {
      // Two gates that list at once: the second one sees what the first one made of it.
      await lockKey(tenantId, `tools of ${server}`).execute(transaction);
      const known = new Map((await rowsOf(transaction, server)).map((row) => [row.tool, row]));
      for (const listed of listing.tools) {
        const row = known.get(listed.tool);
        if (row === undefined) await insertTool(transaction, listing, listed);
        else await followListing(transaction, { listing, listed, row });
      }
      await noteMissing(transaction, listing, [...known.values()]);
      await noteServer(transaction, listing, { problem: null, leftOut: listing.leftOut });
      return (await rowsOf(transaction, server)).map(toolRecordOf);
    });
  }

  async noteFailure(place: ServerPlace, problem: string): Promise<void> {
    await this.#database.transaction(place.tenantId, (transaction) =>
      noteServer(transaction, place, { problem: clip(problem, PROBLEM_CHARS), leftOut: null }),
    );
  }
}

function rowsOf(transaction: TenantTransaction, server: string): Promise<ToolRow[]> {
  return transaction.selectFrom("signalbox.tool").selectAll().where("server", "=", server).orderBy("tool").execute();
}

async function insertTool(
  transaction: TenantTransaction,
  listing: ServerListing,
  listed: ListedDefinition,
): Promise<void> {
  const { tenantId: tenant_id, server, origin, originHash: origin_hash, trust } = listing;
  const { tool, title, definitionHash: definition_hash, settings } = listed;
  const change = judgeListing(null, formOf(listing, listed), trust);
  await transaction
    .insertInto("signalbox.tool")
    .values({
      tenant_id,
      server,
      tool,
      title,
      definition: JSON.stringify(listed.definition),
      definition_hash,
      ...settingColumns(settings),
      state: change?.state ?? "new",
      origin,
      origin_hash,
      lints: JSON.stringify(listed.lints),
      classified_by: settings === null ? null : "file",
      file_settings: settings === null ? null : JSON.stringify(settings),
      seen_at: clock(),
      ...(change?.event === "trust" ? { approved_at: clock() } : {}),
    })
    .execute();
  if (change !== null) await tellChange(transaction, { listing, listed, change, before: null });
}

interface Following {
  readonly listing: ServerListing;
  readonly listed: ListedDefinition;
  readonly row: ToolRow;
}

async function followListing(transaction: TenantTransaction, { listing, listed, row }: Following): Promise<void> {
  const pin = toolRecordOf(row);
  const seen = pin.seen === null ? null : { definitionHash: pin.seen.definitionHash, origin: pin.seen.originHash };
  const { state, definitionHash, originHash } = pin;
  const change = judgeListing(
    { state, definitionHash, origin: originHash, seen },
    formOf(listing, listed),
    listing.trust,
  );
  const isUnread = state === "quarantined" && row.approved_at === null && originHash === listing.originHash;
  const isPinned =
    definitionHash === listed.definitionHash && (originHash === null || originHash === listing.originHash);
  const columns = {
    ...(row.offered ? {} : { offered: true }),
    ...(originHash === null ? { origin: listing.origin, origin_hash: listing.originHash } : {}),
    ...(change === null ? {} : { state: change.state, seen_at: clock(), lints: JSON.stringify(listed.lints) }),
    ...(change === null
      ? {}
      : formColumns({ listing, listed, isPinned, isUnread, isTrusted: change.event === "trust" })),
    ...fileColumns(row, listed),
  };
  if (Object.keys(columns).length > 0) {
    await transaction
      .updateTable("signalbox.tool")
      .set({ ...columns, listed_at: clock() })
      .where("server", "=", row.server)
      .where("tool", "=", row.tool)
      .execute();
  }
  if (change !== null) await tellChange(transaction, { listing, listed, change, before: objectOf(row.definition) });
  if ("effect" in columns) await tellFile(transaction, listing, listed);
}

/** What nobody has looked at yet is replaced; what somebody approved stays beside what is listed now. */
function formColumns(at: {
  readonly listing: ServerListing;
  readonly listed: ListedDefinition;
  readonly isPinned: boolean;
  readonly isUnread: boolean;
  readonly isTrusted: boolean;
}) {
  const { listing, listed } = at;
  const definition = JSON.stringify(listed.definition);
  const nothing = { seen_definition: null, seen_hash: null, seen_origin: null, seen_origin_hash: null };
  const asListed = { ...nothing, title: listed.title, definition, definition_hash: listed.definitionHash };
  if (at.isTrusted) {
    return { ...asListed, origin: listing.origin, origin_hash: listing.originHash, approved_at: clock() };
  }
  if (at.isPinned) return nothing;
  if (at.isUnread) return asListed;
  return {
    seen_definition: definition,
    seen_hash: listed.definitionHash,
    seen_origin: listing.origin,
    seen_origin_hash: listing.originHash,
  };
}

/** The operator's file is taken over when it says something else than before; in between, whoever spoke last counts. */
function fileColumns(row: ToolRow, { settings }: ListedDefinition) {
  const before = row.file_settings === null ? "" : canonicalJson(row.file_settings);
  const now = settings === null ? "" : canonicalJson(settings);
  if (before === now) return {};
  const file_settings = settings === null ? null : JSON.stringify(settings);
  if (settings === null && row.classified_by !== "file") return { file_settings };
  return { ...settingColumns(settings), classified_by: settings === null ? null : "file", file_settings };
}

async function noteMissing(
  transaction: TenantTransaction,
  { tools, server }: ServerListing,
  known: readonly ToolRow[],
): Promise<void> {
  const listed = new Set(tools.map(({ tool }) => tool));
  const gone = known.filter((row) => row.offered && !listed.has(row.tool)).map((row) => row.tool);
  if (gone.length === 0) return;
  await transaction
    .updateTable("signalbox.tool")
    .set({ offered: false })
    .where("server", "=", server)
    .where("tool", "in", gone)
    .execute();
}

async function noteServer(
  transaction: TenantTransaction,
  { tenantId: tenant_id, server, transport, origin }: ServerPlace,
  found: { readonly problem: string | null; readonly leftOut: ServerListing["leftOut"] | null },
): Promise<void> {
  const { problem, leftOut } = found;
  const left_out = JSON.stringify(leftOut ?? []);
  const works = problem === null;
  await transaction
    .insertInto("signalbox.mcp_server")
    .values({
      tenant_id,
      server,
      transport,
      origin,
      problem,
      left_out,
      listed_at: works ? clock() : null,
      failing_since: works ? null : clock(),
    })
    .onConflict((conflict) =>
      conflict.columns(["tenant_id", "server"]).doUpdateSet((row) => ({
        transport,
        origin,
        problem,
        seen_at: clock(),
        ...(leftOut === null ? {} : { left_out }),
        ...(works
          ? { listed_at: clock(), failing_since: null }
          : { failing_since: row.fn.coalesce("signalbox.mcp_server.failing_since", clock()) }),
      })),
    )
    .execute();
}

interface Told {
  readonly listing: ServerListing;
  readonly listed: ListedDefinition;
  readonly change: PinChange;
  /** What was pinned before, or `null`. */
  readonly before: Readonly<Record<string, unknown>> | null;
}

async function tellChange(transaction: TenantTransaction, { listing, listed, change, before }: Told): Promise<void> {
  const { tenantId, server, origin } = listing;
  const { tool, definition, definitionHash, lints } = listed;
  const { event } = change;
  await notePin(transaction, {
    tenantId,
    server,
    tool,
    event,
    definition,
    definitionHash,
    origin,
    lints,
    actor: null,
  });
  const facts = {
    changes: before === null ? [] : auditedChanges(before, definition),
    definitionHash,
    lints: lints.map(({ code }) => code),
    origin,
    server,
    tool,
  };
  await audit(transaction, { tenantId, action: AUDITED[event], actor: null, facts });
}

async function tellFile(
  transaction: TenantTransaction,
  { tenantId, server }: ServerListing,
  { tool, settings }: ListedDefinition,
): Promise<void> {
  await audit(transaction, {
    tenantId,
    action: "tool_classified",
    actor: null,
    facts: { server, tool, by: "file", settings },
  });
}

/** What changed, short enough for an entry; the definitions themselves are in the history of the pin. */
export function auditedChanges(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
): readonly Readonly<Record<string, string | null>>[] {
  const written = (value: unknown): string | null =>
    value === undefined ? null : clip(canonicalJson(value), VALUE_CHARS);
  return diffDefinitions(before, after)
    .slice(0, CHANGES_AUDITED)
    .map((change) => ({ pointer: change.pointer, before: written(change.before), after: written(change.after) }));
}

export async function audit(
  transaction: TenantTransaction,
  entry: {
    readonly tenantId: string;
    readonly action: string;
    /** Canonical JSON, or `null` when nobody did it. */
    readonly actor: string | null;
    readonly facts: Readonly<Record<string, unknown>>;
  },
): Promise<void> {
  const { tenantId, action, actor, facts } = entry;
  await writeAudit({ tenantId, action, actor, conversationId: null, facts: canonicalJson(facts) }).execute(transaction);
}

function formOf({ originHash }: ServerListing, { definitionHash, lints }: ListedDefinition) {
  return { definitionHash, origin: originHash, isBlocked: lints.some(({ grade }) => grade === "block") };
}
