/** API keys. A key is known by the HMAC of its text; which tenant it opens is not known before it is found. */
import { canonicalJson, type Actor } from "@signalbox/contract";
import type { Pool } from "pg";
import { actorText } from "../actor-text.ts";
import { translateDatabaseError } from "../database-errors.ts";
import { FIND_API_KEY } from "../statements/api-key-statements.ts";
import { beyond, clock, writeAudit } from "../statements/tenant-statements.ts";
import type { TenantDatabase, TenantTransaction } from "../tenant-database.ts";
import { decodeCursor, pageOf, type Page, type PageRequest } from "./page.ts";

export interface ApiKeyRow {
  readonly keyId: string;
  readonly tenantId: string;
  readonly name: string;
  /** First characters of the key, to recognise it by. */
  readonly prefix: string;
  readonly rights: readonly string[];
  readonly createdAtMs: number;
  readonly revokedAtMs: number | null;
}

export interface NewApiKey {
  readonly keyId: string;
  readonly tenantId: string;
  readonly name: string;
  readonly prefix: string;
  readonly hash: Uint8Array;
  readonly rights: readonly string[];
  readonly actor: Actor;
}

export class ApiKeyQueries {
  readonly #database: TenantDatabase;
  readonly #pool: Pool;

  /** `pool` must connect as the role `signalbox_run`: a key is looked up before its tenant is known. */
  constructor(database: TenantDatabase, pool: Pool) {
    this.#database = database;
    this.#pool = pool;
  }

  /** The key with this hash unless it was revoked. */
  async findByHash(hash: Uint8Array): Promise<ApiKeyRow | null> {
    try {
      const { rows } = await this.#pool.query<ApiKeyRecord>({ ...FIND_API_KEY, values: [Buffer.from(hash)] });
      const row = rows[0];
      return row === undefined ? null : apiKeyRow(row);
    } catch (thrown) {
      throw translateDatabaseError(thrown);
    }
  }

  /** Creating a key that exists already (same hash) changes nothing and answers with the one there is. */
  async create(key: NewApiKey): Promise<ApiKeyRow> {
    const { keyId: id, tenantId: tenant_id, name, prefix, rights } = key;
    const hash = Buffer.from(key.hash);
    return this.#database.transaction(tenant_id, async (transaction) => {
      const inserted = await transaction
        .insertInto("signalbox.api_key")
        .values({ id, tenant_id, name, prefix, hash, rights, revoked_at: null })
        .onConflict((conflict) => conflict.column("hash").doNothing())
        .returning("id")
        .executeTakeFirst();
      if (inserted !== undefined) {
        await writeAudit({
          tenantId: tenant_id,
          action: "api_key_created",
          actor: actorText(key.actor),
          conversationId: null,
          facts: canonicalJson({ keyId: id, name, rights }),
        }).execute(transaction);
      }
      return apiKeyRow(await selectKeys(transaction).where("hash", "=", hash).executeTakeFirstOrThrow());
    });
  }

  async list(tenantId: string, page: PageRequest): Promise<Page<ApiKeyRow>> {
    const list = { name: "api-keys", tenantId, order: page.order };
    const after = decodeCursor(page.cursor, list);
    const rows = await this.#database.transaction(tenantId, (transaction) =>
      selectKeys(transaction)
        .$if(after !== null, (query) => query.where(beyond("id", page.order, after ?? "")))
        .orderBy("id", page.order)
        .limit(page.limit + 1)
        .execute(),
    );
    return pageOf(rows, { limit: page.limit, list }, { key: (row) => row.id, item: apiKeyRow });
  }

  /** False when there is no such key, or it was revoked before. */
  async revoke(tenantId: string, keyId: string): Promise<boolean> {
    const result = await this.#database.transaction(tenantId, (transaction) =>
      transaction
        .updateTable("signalbox.api_key")
        .set({ revoked_at: clock() })
        .where("id", "=", keyId)
        .where("revoked_at", "is", null)
        .executeTakeFirst(),
    );
    return result.numUpdatedRows > 0n;
  }
}

function selectKeys(transaction: TenantTransaction) {
  return transaction
    .selectFrom("signalbox.api_key")
    .select(["id", "tenant_id", "name", "prefix", "rights", "created_at", "revoked_at"]);
}

interface ApiKeyRecord {
  readonly id: string;
  readonly tenant_id: string;
  readonly name: string;
  readonly prefix: string;
  readonly rights: readonly string[];
  readonly created_at: Date;
  readonly revoked_at: Date | null;
}

function apiKeyRow(row: ApiKeyRecord): ApiKeyRow {
  return {
    keyId: row.id,
    tenantId: row.tenant_id,
    name: row.name,
    prefix: row.prefix,
    rights: row.rights,
    createdAtMs: row.created_at.getTime(),
    revokedAtMs: row.revoked_at?.getTime() ?? null,
  };
}
