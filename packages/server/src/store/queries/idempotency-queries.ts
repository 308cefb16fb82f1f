/**
 * Answers of requests that were recorded by admission: it stores key and run together, the response text is added once
 * it has been built, so that a replay gives the same bytes. Other routes use `recordOnce`.
 */
import { PlatformError } from "@signalbox/contract";
import type { TenantDatabase } from "../tenant-database.ts";

export interface StoredAnswer {
  readonly status: number;
  readonly body: string;
}

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

  /** The answer given to this key, or `null` when none was stored. */
  async answer(tenantId: string, key: string): Promise<StoredAnswer | null> {
    const row = await this.#database.transaction(tenantId, (transaction) =>
      transaction
        .selectFrom("signalbox.idempotency")
        .select(["status", "body"])
        .where("key", "=", key)
        .executeTakeFirst(),
    );
    return row === undefined || row.status === null || row.body === null
      ? null
      : { status: row.status, body: row.body };
  }

  /** Keeps the first answer given to a key that admission recorded; later ones change nothing. */
  async remember(tenantId: string, key: string, answer: StoredAnswer): Promise<void> {
    await this.#database.transaction(tenantId, (transaction) =>
      transaction
        .updateTable("signalbox.idempotency")
        .set({ status: answer.status, body: answer.body })
        .where("key", "=", key)
        .where("body", "is", null)
        .execute(),
    );
  }
}
