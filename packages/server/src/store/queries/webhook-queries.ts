/** Webhooks of a tenant. Their secrets come and go sealed. */
import { canonicalJson, PlatformError, type Actor, type WebhookDisabledCause } from "@signalbox/contract";
import { sql } from "kysely";
import { actorText } from "../actor-text.ts";
import { beyond, clock, lockKey, writeAudit } from "../statements/tenant-statements.ts";
import type { Tenants, TenantTransaction } from "../tenant-database.ts";
import { decodeCursor, pageOf, type Page, type PageRequest } from "./page.ts";

export interface WebhookRow {
  readonly webhookId: string;
  readonly url: string;
  readonly description: string;
  readonly events: readonly string[];
  readonly secretKey: string;
  readonly failingSinceMs: number | null;
  readonly disabledAtMs: number | null;
  readonly disabledCause: WebhookDisabledCause | null;
  /** Of the secret before the present one; `null` where it signs no more. */
  readonly previousUntilMs: number | null;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
}

export interface Commanded {
  readonly tenantId: string;
  readonly webhookId: string;
  readonly actor: Actor;
}

export interface SealedSecret {
  readonly secret: Buffer;
  readonly secretKey: string;
}

export interface NewWebhook extends Commanded, SealedSecret {
  readonly url: string;
  readonly description: string;
  readonly events: readonly string[];
  readonly disabled: boolean;
  /** How many a tenant may have. */
  readonly countMax: number;
}

export interface WebhookChange extends Commanded {
  readonly url?: string | undefined;
  readonly description?: string | undefined;
  readonly events?: readonly string[] | undefined;
  readonly disabled?: boolean | undefined;
}

export interface Rotation extends Commanded, SealedSecret {
  readonly graceMs: number;
}

export class WebhookQueries {
  readonly #database: Tenants;

  constructor(database: Tenants) {
    this.#database = database;
  }

  async create(webhook: NewWebhook): Promise<WebhookRow> {
    const { tenantId, webhookId, url, description, events, disabled, countMax } = webhook;
    return this.#database.transaction(tenantId, async (transaction) => {
      await lockKey(tenantId, "webhooks").execute(transaction);
      const { count } = await transaction
        .selectFrom("signalbox.webhook")
        .select(sql<number>`count(*)::integer`.as("count"))
        .executeTakeFirstOrThrow();
      if (count >= countMax) {
        throw new PlatformError("command_refused", `A tenant has at most ${countMax} webhooks; remove one first.`);
      }
      await transaction
        .insertInto("signalbox.webhook")
        .values({
          id: webhookId,
          tenant_id: tenantId,
          url,
          description,
          events,
          secret: webhook.secret,
          secret_key: webhook.secretKey,
          disabled_at: disabled ? clock() : null,
          disabled_cause: disabled ? "request" : null,
        })
        .execute();
      await note(transaction, webhook, { action: "webhook_created", facts: { events: [...events], url } });
      return this.#found(await select(transaction).where("id", "=", webhookId).executeTakeFirst());
    });
  }

  async find(tenantId: string, webhookId: string): Promise<WebhookRow> {
    return this.#database.transaction(tenantId, async (transaction) =>
      this.#found(await select(transaction).where("id", "=", webhookId).executeTakeFirst()),
    );
  }

  async list(tenantId: string, page: PageRequest): Promise<Page<WebhookRow>> {
    const list = { name: "webhooks", tenantId, order: page.order };
    const after = decodeCursor(page.cursor, list);
    const rows = await this.#database.transaction(tenantId, (transaction) =>
      select(transaction)
        .$if(after !== null, (query) => query.where(beyond("id", page.order, after ?? "")))
        .orderBy("id", page.order)
        .limit(page.limit + 1)
        .execute(),
    );
    return pageOf(rows, { limit: page.limit, list }, { key: (row) => row.id, item: webhookRow });
  }

  /** What is enabled again begins anew: how it failed before is forgotten. */
  async change(change: WebhookChange): Promise<WebhookRow> {
    const { tenantId, webhookId, actor: _, disabled, ...given } = change;
    const fields = Object.fromEntries(
      Object.entries(given).filter(
        ([name, value]) => value !== undefined && name !== "tenantId" && name !== "webhookId",
      ),
    );
    return this.#database.transaction(tenantId, async (transaction) => {
      const changed = await transaction
        .updateTable("signalbox.webhook")
        .set({ ...fields, updated_at: clock() })
        .$if(disabled === true, (query) =>
          query.set({
            disabled_at: sql<Date>`coalesce(disabled_at, signalbox.clock())`,
            disabled_cause: sql<string>`coalesce(disabled_cause, 'request')`,
          }),
        )
        .$if(disabled === false, (query) => query.set({ disabled_at: null, disabled_cause: null, failing_since: null }))
        .where("id", "=", webhookId)
        .executeTakeFirst();
      if (changed.numUpdatedRows === 0n) throw new PlatformError("not_found");
      const facts = { ...fields, ...(disabled === undefined ? {} : { disabled }) };
      await note(transaction, change, { action: "webhook_changed", facts });
      return this.#found(await select(transaction).where("id", "=", webhookId).executeTakeFirst());
    });
  }

  /** The present secret signs beside the new one for a while, unless it was sealed by another key. */
  async rotate(rotation: Rotation): Promise<WebhookRow> {
    const { tenantId, webhookId, secret, secretKey, graceMs } = rotation;
    const kept = sql<boolean>`${graceMs} > 0 and secret_key = ${secretKey}`;
    return this.#database.transaction(tenantId, async (transaction) => {
      const changed = await transaction
        .updateTable("signalbox.webhook")
        .set({
          previous_secret: sql<Buffer | null>`case when ${kept} then secret end`,
          previous_until: sql<Date | null>`case when ${kept} then ${until(graceMs)} end`,
          secret,
          secret_key: secretKey,
          updated_at: clock(),
        })
        .where("id", "=", webhookId)
        .executeTakeFirst();
      if (changed.numUpdatedRows === 0n) throw new PlatformError("not_found");
      await note(transaction, rotation, { action: "webhook_secret_rotated", facts: { graceMs } });
      return this.#found(await select(transaction).where("id", "=", webhookId).executeTakeFirst());
    });
  }

  /** With everything that is owed to it. */
  async remove(command: Commanded): Promise<void> {
    const { tenantId, webhookId } = command;
    await this.#database.transaction(tenantId, async (transaction) => {
      // Before the webhook itself, in the order in which an attempt that ends writes to both.
      await transaction.deleteFrom("signalbox.webhook_delivery").where("webhook_id", "=", webhookId).execute();
      const removed = await transaction.deleteFrom("signalbox.webhook").where("id", "=", webhookId).executeTakeFirst();
      if (removed.numDeletedRows === 0n) throw new PlatformError("not_found");
      await note(transaction, command, { action: "webhook_deleted", facts: {} });
    });
  }

  #found(row: WebhookRecord | undefined): WebhookRow {
    if (row === undefined) throw new PlatformError("not_found");
    return webhookRow(row);
  }
}

function until(ms: number) {
  return sql<Date>`signalbox.clock() + make_interval(secs => ${ms}::numeric / 1000)`;
}

async function note(
  transaction: TenantTransaction,
  { tenantId, webhookId, actor }: Commanded,
  entry: { readonly action: string; readonly facts: Readonly<Record<string, unknown>> },
): Promise<void> {
  const facts = canonicalJson({ ...entry.facts, webhookId });
  const { action } = entry;
  await writeAudit({ tenantId, action, actor: actorText(actor), conversationId: null, facts }).execute(transaction);
}

function select(transaction: TenantTransaction) {
  return transaction
    .selectFrom("signalbox.webhook")
    .select([
      "id",
      "url",
      "description",
      "events",
      "secret_key",
      "failing_since",
      "disabled_at",
      "disabled_cause",
      sql<Date | null>`case when previous_until > signalbox.clock() then previous_until end`.as("previous_until"),
      "created_at",
      "updated_at",
    ]);
}

type WebhookRecord = Awaited<ReturnType<ReturnType<typeof select>["executeTakeFirstOrThrow"]>>;

function webhookRow(row: WebhookRecord): WebhookRow {
  return {
    webhookId: row.id,
    url: row.url,
    description: row.description,
    events: row.events,
    secretKey: row.secret_key,
    failingSinceMs: row.failing_since?.getTime() ?? null,
    disabledAtMs: row.disabled_at?.getTime() ?? null,
    // The table constrains the word.
    disabledCause: row.disabled_cause as WebhookDisabledCause | null,
    previousUntilMs: row.previous_until?.getTime() ?? null,
    createdAtMs: row.created_at.getTime(),
    updatedAtMs: row.updated_at.getTime(),
  };
}
