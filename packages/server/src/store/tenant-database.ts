/**
 * The record as requests of one tenant read and write it. Every transaction names its tenant for itself alone
 * (`set_config(…, true)`), so a pooled connection remembers nothing; without a tenant no row is visible.
 */
import { Kysely, PostgresDialect, type Transaction } from "kysely";
import type { Pool } from "pg";
import { translateDatabaseError } from "./database-errors.ts";
import { enterTenant } from "./statements/tenant-statements.ts";
import type { Tables } from "./tables.ts";

export type TenantTransaction = Transaction<Tables>;

export class TenantDatabase {
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
