/**
 * One idempotency key, one effect: key, effect and answer are one transaction. A second request with the key waits for
 * the first and gets its answer.
 */
import { PlatformError } from "@signalbox/contract";
import type { TenantTransaction } from "../tenant-database.ts";

export interface Once<T> {
  readonly key: string;
  /** Method and route, so that a key is never replayed on another address. */
  readonly route: string;
  /** SHA-256 (hex) of the canonical body. */
  readonly bodyHash: string;
  /** What is answered now and on every replay. */
  answer(value: T): { readonly status: number; readonly body: string };
}

export type Recorded<T> =
  | { readonly kind: "created"; readonly value: T }
  | { readonly kind: "replayed"; readonly status: number; readonly body: string };

/** Ends with `idempotency_key_reused` when the key belongs to another request. */
export async function recordOnce<T>(
  transaction: TenantTransaction,
  plan: { readonly tenantId: string; readonly once: Once<T> | null },
  create: () => Promise<T>,
): Promise<Recorded<T>> {
  const { tenantId, once } = plan;
  if (once === null) {
    return { kind: "created", value: await create() };
  }
  const { key, route, bodyHash } = once;
  const taken = await transaction
    .insertInto("signalbox.idempotency")
    .values({ tenant_id: tenantId, key, route, body_hash: bodyHash })
    .onConflict((conflict) => conflict.doNothing())
    .returning("key")
    .executeTakeFirst();
  if (taken === undefined) {
    return replay(transaction, once);
  }
  const value = await create();
  await transaction.updateTable("signalbox.idempotency").set(once.answer(value)).where("key", "=", key).execute();
  return { kind: "created", value };
}

async function replay<T>(transaction: TenantTransaction, once: Once<T>): Promise<Recorded<T>> {
  const known = await transaction
    .selectFrom("signalbox.idempotency")
    .select(["route", "body_hash", "status", "body"])
    .where("key", "=", once.key)
    .executeTakeFirstOrThrow();
  const same = known.route === once.route && known.body_hash === once.bodyHash;
  if (!same || known.status === null || known.body === null) {
    throw new PlatformError("idempotency_key_reused");
  }
  return { kind: "replayed", status: known.status, body: known.body };
}
