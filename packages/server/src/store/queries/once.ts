/**
 * One idempotency key, one effect: key, effect and answer are one transaction. A second request with the key waits for
 * the first and gets its answer.
 */
import { PlatformError } from "@signalbox/contract";
import { lockKey } from "../statements/tenant-statements.ts";
import type { TenantTransaction } from "../tenant-database.ts";

export interface StoredAnswer {
  readonly status: number;
  readonly body: string;
}

export interface Once<T> {
  readonly key: string;
  /** Method and route, so that a key is never replayed on another address. */
  readonly route: string;
  /** SHA-256 (hex) of the canonical body. */
  readonly bodyHash: string;
  /** What is answered now and on every replay; `null` keeps nothing, so that the key is as good as new. */
  answer(value: T): StoredAnswer | null;
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
  await lockKey(tenantId, key).execute(transaction);
  const before = await answerBefore(transaction, once);
  if (before !== null) return { kind: "replayed", ...before };
  const value = await create();
  const answer = once.answer(value);
  if (answer === null) return { kind: "created", value };
  const taken = await transaction
    .insertInto("signalbox.idempotency")
    .values({ tenant_id: tenantId, key, route, body_hash: bodyHash, status: answer.status, body: answer.body })
    .onConflict((conflict) => conflict.doNothing())
    .returning("key")
    .executeTakeFirst();
  // Admission takes keys without this lock: whoever used this one for a message meanwhile was first.
  if (taken === undefined) throw new PlatformError("idempotency_key_reused");
  return { kind: "created", value };
}

async function answerBefore<T>(transaction: TenantTransaction, once: Once<T>): Promise<StoredAnswer | null> {
  const known = await transaction
    .selectFrom("signalbox.idempotency")
    .select(["route", "body_hash", "status", "body"])
    .where("key", "=", once.key)
    .executeTakeFirst();
  if (known === undefined) return null;
  const same = known.route === once.route && known.body_hash === once.bodyHash;
  if (!same || known.status === null || known.body === null) {
    throw new PlatformError("idempotency_key_reused");
  }
  return { status: known.status, body: known.body };
}
