/** Agents and their revisions. */
import { canonicalJson, PlatformError, type Actor, type AgentId } from "@signalbox/contract";
import { actorText } from "../actor-text.ts";
import { violatedConstraint } from "../database-errors.ts";
import { beyond, writeAudit } from "../statements/tenant-statements.ts";
import type { TenantDatabase, TenantTransaction } from "../tenant-database.ts";
import { recordOnce, type Once, type Recorded } from "./once.ts";
import { decodeCursor, pageOf, type Page, type PageRequest } from "./page.ts";

export interface AgentRow {
  readonly agentId: AgentId;
  readonly name: string;
  readonly revision: number;
  readonly runtime: string;
  /** What the revision says, as it was given to `create`. */
  readonly definition: Readonly<Record<string, unknown>>;
  readonly createdAtMs: number;
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
    const after = page.cursor === null ? null : decodeCursor(page.cursor);
    const rows = await this.#database.transaction(tenantId, (transaction) =>
      selectAgents(transaction)
        .$if(after !== null, (query) => query.where(beyond("agent.id", page.order, after ?? "")))
        .orderBy("agent.id", page.order)
        .limit(page.limit + 1)
        .execute(),
    );
    return pageOf(rows, page.limit, { key: (row) => row.id, item: agentRow });
  }
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
  return agentRow(await selectAgents(transaction).where("agent.id", "=", id).executeTakeFirstOrThrow());
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
      "revision.runtime",
      "revision.definition",
    ]);
}

interface AgentRecord {
  readonly id: string;
  readonly name: string;
  readonly revision: number;
  readonly created_at: Date;
  readonly runtime: string;
  readonly definition: unknown;
}

function agentRow(row: AgentRecord): AgentRow {
  return {
    // The id and the shape of the definition are what `create` stored.
    agentId: row.id as AgentId,
    name: row.name,
    revision: row.revision,
    runtime: row.runtime,
    definition: row.definition as Readonly<Record<string, unknown>>,
    createdAtMs: row.created_at.getTime(),
  };
}
