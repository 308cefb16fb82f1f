/** What a webhook was to be told, and what came of it. */
import { PlatformError, type DeliveryState } from "@signalbox/contract";
import { sql } from "kysely";
import { beyond, clock } from "../statements/tenant-statements.ts";
import type { Tenants, TenantTransaction } from "../tenant-database.ts";
import { decodeCursor, pageOf, type Page, type PageRequest } from "./page.ts";

export interface AttemptRow {
  readonly number: number;
  readonly startedAtMs: number;
  readonly durationMs: number | null;
  readonly status: number | null;
  readonly errorCode: string | null;
  readonly response: string | null;
}

export interface DeliveryRow {
  readonly deliveryId: string;
  readonly webhookId: string;
  readonly type: string;
  readonly conversationId: string | null;
  readonly runId: string | null;
  readonly sequence: number | null;
  readonly payload: string;
  readonly state: DeliveryState;
  readonly attemptCount: number;
  readonly nextAtMs: number | null;
  readonly createdAtMs: number;
  readonly finishedAtMs: number | null;
  /** The newest first. */
  readonly attempts: readonly AttemptRow[];
}

export interface NamedDelivery {
  readonly tenantId: string;
  readonly webhookId: string;
  readonly deliveryId: string;
}

export interface NewDelivery extends NamedDelivery {
  readonly type: string;
  readonly payload: string;
}

export class DeliveryQueries {
  readonly #database: Tenants;

  constructor(database: Tenants) {
    this.#database = database;
  }

  async find(named: NamedDelivery): Promise<DeliveryRow> {
    return this.#database.transaction(named.tenantId, (transaction) => findIn(transaction, named));
  }

  /** Each with its last attempt alone. */
  async list(
    about: { readonly tenantId: string; readonly webhookId: string; readonly state: DeliveryState | null },
    page: PageRequest,
  ): Promise<Page<DeliveryRow>> {
    const { tenantId, webhookId, state } = about;
    const list = { name: "deliveries", tenantId, order: page.order, filter: { webhookId, state } };
    const after = decodeCursor(page.cursor, list);
    return this.#database.transaction(tenantId, async (transaction) => {
      const rows = await select(transaction)
        .where("webhook_id", "=", webhookId)
        .$if(state !== null, (query) => query.where("state", "=", state ?? ""))
        .$if(after !== null, (query) => query.where(beyond("id", page.order, after ?? "")))
        .orderBy("id", page.order)
        .limit(page.limit + 1)
        .execute();
      const newest = await transaction
        .selectFrom("signalbox.webhook_attempt")
        .distinctOn("delivery_id")
        .selectAll()
        .where("delivery_id", "in", rows.map(({ id }) => id).concat(""))
        .orderBy("delivery_id")
        .orderBy("number", "desc")
        .execute();
      const item = (row: DeliveryRecord) =>
        deliveryRow(
          row,
          newest.filter((attempt) => attempt.delivery_id === row.id),
        );
      return pageOf(rows, { limit: page.limit, list }, { key: (row) => row.id, item });
    });
  }

  /** Something that no event tells of. */
  async create(delivery: NewDelivery): Promise<DeliveryRow> {
    const { tenantId, webhookId, deliveryId: id, type, payload } = delivery;
    return this.#database.transaction(tenantId, async (transaction) => {
      const row = { id, tenant_id: tenantId, webhook_id: webhookId, type, payload };
      await transaction
        .insertInto("signalbox.webhook_delivery")
        .values({ ...row, conversation_id: null, run_id: null, sequence: null })
        .execute();
      return findIn(transaction, delivery);
    });
  }

  /** Due now, with all its attempts before it; one that is under way is left to end. */
  async renew(named: NamedDelivery): Promise<DeliveryRow> {
    return this.#database.transaction(named.tenantId, async (transaction) => {
      await transaction
        .updateTable("signalbox.webhook_delivery")
        .set({
          state: "pending",
          next_at: clock(),
          begun: false,
          finished_at: null,
          attempt_base: sql<number>`attempt_count`,
        })
        .where("id", "=", named.deliveryId)
        .where("webhook_id", "=", named.webhookId)
        .where(sql<boolean>`not (begun and next_at > signalbox.clock())`)
        .execute();
      return findIn(transaction, named);
    });
  }
}

async function findIn(transaction: TenantTransaction, { webhookId, deliveryId }: NamedDelivery): Promise<DeliveryRow> {
  const row = await select(transaction)
    .where("id", "=", deliveryId)
    .where("webhook_id", "=", webhookId)
    .executeTakeFirst();
  if (row === undefined) throw new PlatformError("not_found");
  const attempts = await transaction
    .selectFrom("signalbox.webhook_attempt")
    .selectAll()
    .where("delivery_id", "=", deliveryId)
    .orderBy("number", "desc")
    .execute();
  return deliveryRow(row, attempts);
}

function select(transaction: TenantTransaction) {
  return transaction.selectFrom("signalbox.webhook_delivery").selectAll();
}

type DeliveryRecord = Awaited<ReturnType<ReturnType<typeof select>["executeTakeFirstOrThrow"]>>;

interface AttemptRecord {
  readonly number: number;
  readonly started_at: Date;
  readonly duration_ms: number | null;
  readonly status: number | null;
  readonly error_code: string | null;
  readonly response: string | null;
}

function deliveryRow(row: DeliveryRecord, attempts: readonly AttemptRecord[]): DeliveryRow {
  return {
    deliveryId: row.id,
    webhookId: row.webhook_id,
    type: row.type,
    conversationId: row.conversation_id,
    runId: row.run_id,
    sequence: row.sequence,
    payload: row.payload,
    // The table constrains the word.
    state: row.state as DeliveryState,
    attemptCount: row.attempt_count,
    nextAtMs: row.next_at?.getTime() ?? null,
    createdAtMs: row.created_at.getTime(),
    finishedAtMs: row.finished_at?.getTime() ?? null,
    attempts: attempts.map((attempt) => ({
      number: attempt.number,
      startedAtMs: attempt.started_at.getTime(),
      durationMs: attempt.duration_ms,
      status: attempt.status,
      errorCode: attempt.error_code,
      response: attempt.response,
    })),
  };
}
