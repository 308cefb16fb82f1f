/** Versions of a tenant's policy: kept as they were given, and one of them in place. */
import { canonicalJson, PlatformError, type Actor, type PolicyId } from "@signalbox/contract";
import { actorText } from "../actor-text.ts";
import { beyond, clock, lockKey, writeAudit } from "../statements/tenant-statements.ts";
import { clientCall, recentCalls, type ClientCall, type RecordedCall } from "../statements/policy-statements.ts";
import type { TenantDatabase, TenantTransaction } from "../tenant-database.ts";
import { recordOnce, type Once, type Recorded } from "./once.ts";
import { decodeCursor, pageOf, type Page, type PageRequest } from "./page.ts";

export interface PolicyRow {
  readonly policyId: PolicyId;
  readonly hash: string;
  readonly document: unknown;
  readonly isActive: boolean;
  readonly createdBy: Actor;
  readonly createdAtMs: number;
  readonly activatedAtMs: number | null;
}

export interface NewPolicy {
  readonly tenantId: string;
  readonly policyId: PolicyId;
  readonly hash: string;
  /** Canonical JSON. */
  readonly document: string;
  readonly actor: Actor;
}

export interface Activation {
  readonly tenantId: string;
  /** `null` goes back to the policy the platform ships with. */
  readonly policyId: string | null;
  /** What must be in place now; `undefined` for whatever is. */
  readonly replaces: string | null | undefined;
  readonly actor: Actor;
}

export class PolicyQueries {
  readonly #database: TenantDatabase;

  constructor(database: TenantDatabase) {
    this.#database = database;
  }

  /** Errors: `idempotency_key_reused`. */
  async create(policy: NewPolicy, once: Once<PolicyRow> | null): Promise<Recorded<PolicyRow>> {
    const { tenantId } = policy;
    return this.#database.transaction(tenantId, (transaction) =>
      recordOnce(transaction, { tenantId, once }, () => insertPolicy(transaction, policy)),
    );
  }

  async find(tenantId: string, policyId: string): Promise<PolicyRow | null> {
    const row = await this.#database.transaction(tenantId, (transaction) =>
      selectPolicies(transaction).where("policy.id", "=", policyId).executeTakeFirst(),
    );
    return row === undefined ? null : policyRow(row);
  }

  /** The one in place, or `null` for the one the platform ships with. */
  async active(tenantId: string): Promise<PolicyRow | null> {
    const row = await this.#database.transaction(tenantId, (transaction) => activeRow(transaction));
    return row === undefined ? null : policyRow(row);
  }

  async list(tenantId: string, page: PageRequest): Promise<Page<PolicyRow>> {
    const list = { name: "policies", tenantId, order: page.order };
    const after = decodeCursor(page.cursor, list);
    const rows = await this.#database.transaction(tenantId, (transaction) =>
      selectPolicies(transaction)
        .$if(after !== null, (query) => query.where(beyond("policy.id", page.order, after ?? "")))
        .orderBy("policy.id", page.order)
        .limit(page.limit + 1)
        .execute(),
    );
    return pageOf(rows, { limit: page.limit, list }, { key: (row) => row.id, item: policyRow });
  }

  /** The one that is in place then, or `null` for the shipped one. Errors: `not_found`, `policy_changed`. */
  async activate(activation: Activation, once: Once<PolicyRow | null> | null): Promise<Recorded<PolicyRow | null>> {
    const { tenantId } = activation;
    return this.#database.transaction(tenantId, (transaction) =>
      recordOnce(transaction, { tenantId, once }, () => putInPlace(transaction, activation)),
    );
  }

  /** Keeps what was answered to a request that changes nothing, so that its key answers the same again. */
  async keep<T>(tenantId: string, once: Once<T>, value: T): Promise<Recorded<T>> {
    return this.#database.transaction(tenantId, (transaction) =>
      recordOnce(transaction, { tenantId, once }, async () => value),
    );
  }

  /** A call of a client of the gateway, or `null`. */
  async clientCall(tenantId: string, which: Parameters<typeof clientCall>[0]): Promise<ClientCall | null> {
    const { rows } = await this.#database.transaction(tenantId, (transaction) =>
      clientCall(which).execute(transaction),
    );
    return rows[0] ?? null;
  }

  /** Calls of a tool that the agent had, newest first: one of them, or those of the last days. */
  async calls(tenantId: string, which: Parameters<typeof recentCalls>[0]): Promise<readonly RecordedCall[]> {
    const { rows } = await this.#database.transaction(tenantId, (transaction) =>
      recentCalls(which).execute(transaction),
    );
    return rows;
  }
}

async function insertPolicy(transaction: TenantTransaction, policy: NewPolicy): Promise<PolicyRow> {
  const { tenantId, policyId, hash, document, actor } = policy;
  const row = await transaction
    .insertInto("signalbox.policy")
    .values({ id: policyId, tenant_id: tenantId, hash, document, created_by: actorText(actor) })
    .returning(COLUMNS)
    .executeTakeFirstOrThrow();
  await audit(transaction, policy, { action: "policy_created", facts: { hash, policyId } });
  return policyRow(row);
}

async function putInPlace(transaction: TenantTransaction, activation: Activation): Promise<PolicyRow | null> {
  const { tenantId, policyId, replaces, actor } = activation;
  // Two at once: the second one sees what the first one put in place.
  await lockKey(tenantId, "the policy in place").execute(transaction);
  const before = await activeRow(transaction);
  if (replaces !== undefined && replaces !== (before?.id ?? null)) throw new PlatformError("policy_changed");
  await transaction.updateTable("signalbox.policy").set({ active: false }).where("active", "=", true).execute();
  const row =
    policyId === null
      ? null
      : await transaction
          .updateTable("signalbox.policy")
          .set({ active: true, activated_at: clock(), activated_by: actorText(actor) })
          .where("id", "=", policyId)
          .returning(COLUMNS)
          .executeTakeFirst();
  if (row === undefined) throw new PlatformError("not_found");
  const facts = { before: before?.id ?? null, hash: row?.hash ?? null, policyId };
  await audit(transaction, activation, { action: "policy_activated", facts });
  return row === null ? null : policyRow(row);
}

async function audit(
  transaction: TenantTransaction,
  { tenantId, actor }: { readonly tenantId: string; readonly actor: Actor },
  { action, facts }: { readonly action: string; readonly facts: Readonly<Record<string, unknown>> },
): Promise<void> {
  const entry = { tenantId, action, actor: actorText(actor), conversationId: null, facts: canonicalJson(facts) };
  await writeAudit(entry).execute(transaction);
}

const COLUMNS = ["id", "hash", "document", "active", "created_by", "created_at", "activated_at"] as const;

function selectPolicies(transaction: TenantTransaction) {
  return transaction.selectFrom("signalbox.policy as policy").select(COLUMNS);
}

function activeRow(transaction: TenantTransaction) {
  return selectPolicies(transaction).where("policy.active", "=", true).executeTakeFirst();
}

interface StoredPolicy {
  readonly id: string;
  readonly hash: string;
  readonly document: string;
  readonly active: boolean;
  readonly created_by: string;
  readonly created_at: Date;
  readonly activated_at: Date | null;
}

function policyRow(row: StoredPolicy): PolicyRow {
  return {
    // Ids and actors are what this file stored.
    policyId: row.id as PolicyId,
    hash: row.hash,
    document: JSON.parse(row.document) as unknown,
    isActive: row.active,
    createdBy: JSON.parse(row.created_by) as Actor,
    createdAtMs: row.created_at.getTime(),
    activatedAtMs: row.activated_at?.getTime() ?? null,
  };
}
