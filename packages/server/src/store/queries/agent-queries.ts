/** Agents and their revisions. */
import { canonicalJson, PlatformError, type Actor, type AgentId } from "@signalbox/contract";
import { actorText } from "../actor-text.ts";
import { violatedConstraint } from "../database-errors.ts";
import { beyond, clock, writeAudit } from "../statements/tenant-statements.ts";
import type { TenantDatabase, TenantTransaction } from "../tenant-database.ts";
import { recordOnce, type Once, type Recorded } from "./once.ts";
import { decodeCursor, decodeNumberCursor, pageOf, type Page, type PageRequest } from "./page.ts";

export interface AgentRow {
  readonly agentId: AgentId;
  readonly name: string;
  readonly revision: number;
  readonly runtime: string;
  /** What the revision says, as it was given to `create`. */
  readonly definition: Readonly<Record<string, unknown>>;
  readonly createdAtMs: number;
  readonly disabled: boolean;
}

/** What one revision said. */
export type RevisionRow = Omit<AgentRow, "name" | "disabled">;

export interface AgentChange {
  readonly tenantId: string;
  readonly agentId: AgentId;
  /** Fields of the definition as they are to be; the others stay. */
  readonly fields: Readonly<Record<string, unknown>>;
  readonly disabled: boolean | null;
  /** The revision that is to be changed, or `null` for whichever it is. */
  readonly revision: number | null;
  readonly actor: Actor;
}

export interface NewAgent {
  readonly tenantId: string;
  readonly agentId: AgentId;
  readonly name: string;
  readonly runtime: string;
  readonly definition: Readonly<Record<string, unknown>>;
  readonly actor: Actor;
}

export class AgentQueries {
  readonly #database: TenantDatabase;

  constructor(database: TenantDatabase) {
    this.#database = database;
  }

  /** Revision 1 of a new agent. Errors: `agent_name_taken`, `idempotency_key_reused`. */
  async create(agent: NewAgent, once: Once<AgentRow> | null): Promise<Recorded<AgentRow>> {
    const { tenantId } = agent;
    return this.#database.transaction(tenantId, (transaction) =>
      recordOnce(transaction, { tenantId, once }, () => insertAgent(transaction, agent)),
    );
  }

  /** By id, or by name. */
  async find(tenantId: string, idOrName: string): Promise<AgentRow | null> {
    const row = await this.#database.transaction(tenantId, (transaction) =>
      selectAgents(transaction)
        .where((where) => where.or([where("agent.id", "=", idOrName), where("agent.name", "=", idOrName)]))
        .executeTakeFirst(),
    );
    return row === undefined ? null : agentRow(row);
  }

  async list(tenantId: string, page: PageRequest): Promise<Page<AgentRow>> {
    const list = { name: "agents", tenantId, order: page.order };
    const after = decodeCursor(page.cursor, list);
    const rows = await this.#database.transaction(tenantId, (transaction) =>
      selectAgents(transaction)
        .$if(after !== null, (query) => query.where(beyond("agent.id", page.order, after ?? "")))
        .orderBy("agent.id", page.order)
        .limit(page.limit + 1)
        .execute(),
    );
    return pageOf(rows, { limit: page.limit, list }, { key: (row) => row.id, item: agentRow });
  }

  /** The agent as it is afterwards. Errors: `not_found`, `revision_changed`. */
  async change(change: AgentChange): Promise<AgentRow> {
    return this.#database.transaction(change.tenantId, (transaction) => changeAgent(transaction, change));
  }

  /** Every revision of an agent that exists. */
  async revisions(agent: { tenantId: string; agentId: string }, page: PageRequest): Promise<Page<RevisionRow>> {
    const { tenantId, agentId } = agent;
    const list = { name: "revisions", tenantId, order: page.order, filter: { agentId } };
    const after = decodeNumberCursor(page.cursor, list);
    const rows = await this.#database.transaction(tenantId, (transaction) =>
      transaction
        .selectFrom("signalbox.agent_revision as revision")
        .where("revision.agent_id", "=", agentId)
        .$if(after !== null, (query) => query.where(beyond("revision.revision", page.order, after ?? 0)))
        .select([
          "revision.agent_id as id",
          "revision.revision",
          "revision.created_at",
          "revision.runtime",
          "revision.definition",
        ])
        .orderBy("revision.revision", page.order)
        .limit(page.limit + 1)
        .execute(),
    );
    return pageOf(rows, { limit: page.limit, list }, { key: (row) => String(row.revision), item: revisionRow });
  }
}

async function changeAgent(transaction: TenantTransaction, change: AgentChange): Promise<AgentRow> {
  const { tenantId: tenant_id, agentId: agent_id, fields, disabled } = change;
  // Two changes at once: the second one sees what the first one made.
  const locked = await transaction
    .selectFrom("signalbox.agent")
    .select("revision")
    .where("id", "=", agent_id)
    .forUpdate()
    .executeTakeFirst();
  if (locked === undefined) throw new PlatformError("not_found");
  if (change.revision !== null && change.revision !== locked.revision) throw revisionChanged(locked.revision);
  const agent = await findAgent(transaction, agent_id);
  const changed = Object.keys(fields).filter((name) => !isSame(agent.definition[name], fields[name]));
  const revision = changed.length > 0 ? agent.revision + 1 : agent.revision;
  const switched = disabled !== null && disabled !== agent.disabled;
  if (changed.length > 0) {
    const definition = { ...agent.definition, ...fields };
    const runtime = typeof fields.runtime === "string" ? fields.runtime : agent.runtime;
    await transaction
      .insertInto("signalbox.agent_revision")
      .values({ tenant_id, agent_id, revision, runtime, definition: JSON.stringify(definition) })
      .execute();
  }
  if (changed.length === 0 && !switched) return agent;
  await transaction
    .updateTable("signalbox.agent")
    .set({ revision, ...(switched ? { disabled_at: disabled ? clock() : null } : {}) })
    .where("id", "=", agent_id)
    .execute();
  await writeAudit({
    tenantId: tenant_id,
    action: "agent_changed",
    actor: actorText(change.actor),
    conversationId: null,
    facts: canonicalJson({
      agentId: agent_id,
      changed: changed.toSorted(),
      revision,
      ...(switched ? { disabled } : {}),
    }),
  }).execute(transaction);
  return findAgent(transaction, agent_id);
}

async function findAgent(transaction: TenantTransaction, agentId: string): Promise<AgentRow> {
  return agentRow(await selectAgents(transaction).where("agent.id", "=", agentId).executeTakeFirstOrThrow());
}

function isSame(left: unknown, right: unknown): boolean {
  return left !== undefined && canonicalJson(left) === canonicalJson(right);
}

function revisionChanged(revision: number): PlatformError {
  return new PlatformError("revision_changed", `The agent is at revision ${revision} by now.`, {
    extra: { revision },
  });
}

async function insertAgent(transaction: TenantTransaction, agent: NewAgent): Promise<AgentRow> {
  const { tenantId: tenant_id, agentId: id, name, runtime, definition } = agent;
  try {
    await transaction.insertInto("signalbox.agent").values({ id, tenant_id, name, revision: 1 }).execute();
  } catch (thrown) {
    if (violatedConstraint(thrown) === "agent_name_taken") {
      throw new PlatformError("agent_name_taken", undefined, { cause: thrown });
    }
    throw thrown;
  }
  await transaction
    .insertInto("signalbox.agent_revision")
    .values({ tenant_id, agent_id: id, revision: 1, runtime, definition: JSON.stringify(definition) })
    .execute();
  await writeAudit({
    tenantId: tenant_id,
    action: "agent_created",
    actor: actorText(agent.actor),
    conversationId: null,
    facts: canonicalJson({ agentId: id, name, revision: 1, runtime }),
  }).execute(transaction);
  return findAgent(transaction, id);
}

function selectAgents(transaction: TenantTransaction) {
  return transaction
    .selectFrom("signalbox.agent as agent")
    .innerJoin("signalbox.agent_revision as revision", (join) =>
      join.onRef("revision.agent_id", "=", "agent.id").onRef("revision.revision", "=", "agent.revision"),
    )
    .select([
      "agent.id",
      "agent.name",
      "agent.revision",
      "agent.created_at",
      "agent.disabled_at",
      "revision.runtime",
      "revision.definition",
    ]);
}

interface AgentRecord {
  readonly id: string;
  readonly name: string;
  readonly revision: number;
  readonly created_at: Date;
  readonly disabled_at: Date | null;
  readonly runtime: string;
  readonly definition: unknown;
}

function agentRow(row: AgentRecord): AgentRow {
  return { ...revisionRow(row), name: row.name, disabled: row.disabled_at !== null };
}

function revisionRow(row: Omit<AgentRecord, "name" | "disabled_at">): RevisionRow {
  return {
    // The id and the shape of the definition are what `create` stored.
    agentId: row.id as AgentId,
    revision: row.revision,
    runtime: row.runtime,
    definition: row.definition as Readonly<Record<string, unknown>>,
    createdAtMs: row.created_at.getTime(),
  };
}
