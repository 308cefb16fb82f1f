/** Answers that were given, for whoever cannot get as far as `recordOnce` again. */
import { PlatformError } from "@signalbox/contract";
import type { TenantDatabase } from "../tenant-database.ts";
import type { StoredAnswer } from "./once.ts";

export class IdempotencyQueries {
  readonly #database: TenantDatabase;

  constructor(database: TenantDatabase) {
    this.#database = database;
  }

  /**
   * The answer this request was given, or `null` when its key is new or was never answered. Ends with
   * `idempotency_key_reused` when the key belongs to another request.
   */
  async answered(
    tenantId: string,
    post: { readonly key: string; readonly route: string; readonly bodyHash: string },
  ): Promise<StoredAnswer | null> {
    const row = await this.#database.transaction(tenantId, (transaction) =>
      transaction
        .selectFrom("signalbox.idempotency")
        .select(["route", "body_hash", "status", "body"])
        .where("key", "=", post.key)
        .executeTakeFirst(),
    );
    if (row === undefined) return null;
    if (row.route !== post.route || row.body_hash !== post.bodyHash) throw new PlatformError("idempotency_key_reused");
    return row.status === null || row.body === null ? null : { status: row.status, body: row.body };
  }
}
