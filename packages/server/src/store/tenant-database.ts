/**
 * The record as requests of one tenant read and write it. Every transaction names its tenant for itself alone
 * (`set_config(…, true)`), so a pooled connection remembers nothing; without a tenant no row is visible.
 */
import { CompiledQuery, Kysely, PostgresDialect, type Transaction } from "kysely";
import type { Pool, QueryResultRow } from "pg";
import { translateDatabaseError } from "./database-errors.ts";
import type { Queryable } from "./record-call.ts";
import { enterTenant } from "./statements/tenant-statements.ts";
import type { Tables } from "./tables.ts";

export type TenantTransaction = Transaction<Tables>;

/** Where a query runs: in a transaction of its own, or in one that is open already. */
export interface Tenants {
  transaction<T>(tenantId: string, work: (transaction: TenantTransaction) => Promise<T>): Promise<T>;
}

export class TenantDatabase implements Tenants {
  readonly #kysely: Kysely<Tables>;

  /** `pool` connects as the role `signalbox_app`, save where a statement must not be narrowed by policies. It stays the caller's to end. */
  constructor(pool: Pool) {
    this.#kysely = new Kysely<Tables>({ dialect: new PostgresDialect({ pool }) });
  }

  async transaction<T>(tenantId: string, work: (transaction: TenantTransaction) => Promise<T>): Promise<T> {
    try {
      return await this.#kysely.transaction().execute(async (transaction) => {
        await enterTenant(tenantId).execute(transaction);
        return work(transaction);
      });
    } catch (thrown) {
      throw translateDatabaseError(thrown);
    }
  }
}

/** What is asked of it becomes part of this transaction, which has entered its tenant. */
export function within(transaction: TenantTransaction): Tenants & Queryable {
  return {
    transaction: (_tenantId, work) => work(transaction),
    async query<Row extends QueryResultRow>({ text, values }: Parameters<Queryable["query"]>[0]) {
      const { rows } = await transaction.executeQuery<Row>(CompiledQuery.raw(text, values));
      return { rows };
    },
  };
}
