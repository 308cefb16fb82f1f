/** Conversations as their viewers see them. */
import {
  canonicalJson,
  PlatformError,
  type Actor,
  type AgentId,
  type ConversationId,
  type MessageId,
  type RunId,
  type RunState,
  type Wait,
} from "@signalbox/contract";
import { actorText } from "../actor-text.ts";
import { violatedConstraint } from "../database-errors.ts";
import { activeRunOf, forkConversation, queueOf } from "../statements/conversation-statements.ts";
import { activeRunWaitsFor } from "../statements/operator-statements.ts";
import { beyond, clock, writeAudit } from "../statements/tenant-statements.ts";
import type { TenantDatabase, TenantTransaction } from "../tenant-database.ts";
import type { ConversationSearch } from "./conversation-search.ts";
import { recordOnce, type Once, type Recorded } from "./once.ts";
import { decodeCursor, pageOf, type Page, type PageRequest } from "./page.ts";
import type { Viewer } from "./viewer.ts";

export interface ConversationRow {
  readonly conversationId: ConversationId;
  readonly agentId: AgentId;
  readonly agentName: string;
  readonly title: string | null;
  /** End user the conversation belongs to, or `null` when the key itself made it. */
  readonly participant: string | null;
  readonly metadata: Readonly<Record<string, string>>;
  readonly lastSequence: number;
  /** The oldest cursor that still works; events before it are gone. */
  readonly keptSequence: number;
  /** The conversation it was forked from. */
  readonly forkedFrom: ConversationId | null;
  readonly activeRun: { readonly runId: RunId; readonly state: RunState } | null;
  /** Runs waiting behind the active one, next first; `position` counts the runs before it. */
  readonly queue: readonly { readonly runId: RunId; readonly messageId: MessageId; readonly position: number }[];
  /** What the active run waits for, oldest first. */
  readonly waitingFor: readonly Wait[];
  readonly generation: number;
  readonly owner: number | null;
  readonly archived: boolean;
  readonly deleteRequestedAtMs: number | null;
  readonly createdAtMs: number;
  readonly updatedAtMs: number;
}

export interface ConversationChange {
  readonly title?: string | null | undefined;
  readonly metadata?: Readonly<Record<string, string>> | undefined;
  readonly archived?: boolean | undefined;
}

export interface ConversationFilter {
  readonly agentId?: string;
  /** In the archive, or not; left out: both. */
  readonly archived?: boolean;
  /** Words to find, and who finds them. */
  readonly search?: { readonly text: string; readonly by: ConversationSearch };
}

export interface NewConversation {
  readonly tenantId: string;
  readonly conversationId: ConversationId;
  readonly agentId: AgentId;
  readonly title: string | null;
  readonly metadata: Readonly<Record<string, string>>;
  /** With a user, the conversation belongs to that user alone. */
  readonly actor: Actor;
}

export interface NewFork {
  readonly tenantId: string;
  readonly conversationId: ConversationId;
  readonly from: string;
  /** The last message the fork begins with; `null`: everything that is finished. */
  readonly messageId: string | null;
  readonly actor: Actor;
}

export class ConversationQueries {
  readonly #database: TenantDatabase;

  constructor(database: TenantDatabase) {
    this.#database = database;
  }

  /** Errors: `not_found` (no such agent), `idempotency_key_reused`. */
  async create(conversation: NewConversation, once: Once<ConversationRow> | null): Promise<Recorded<ConversationRow>> {
    const { tenantId } = conversation;
    return this.#database.transaction(tenantId, (transaction) =>
      recordOnce(transaction, { tenantId, once }, () => insertConversation(transaction, conversation)),
    );
  }

  /** Errors: `not_found` (conversation or message), `idempotency_key_reused`. */
  async fork(fork: NewFork, once: Once<ConversationRow> | null): Promise<Recorded<ConversationRow>> {
    const { tenantId } = fork;
    return this.#database.transaction(tenantId, (transaction) =>
      recordOnce(transaction, { tenantId, once }, () => insertFork(transaction, fork)),
    );
  }

  async find(viewer: Viewer, conversationId: string): Promise<ConversationRow | null> {
    const row = await this.#database.transaction(viewer.tenantId, (transaction) =>
      selectConversations(transaction, viewer.user).where("conversation.id", "=", conversationId).executeTakeFirst(),
    );
    return row === undefined ? null : conversationRow(row);
  }

  async list(viewer: Viewer, page: PageRequest, filter: ConversationFilter = {}): Promise<Page<ConversationRow>> {
    const { agentId, archived, search } = filter;
    const list = {
      name: "conversations",
      ...viewer,
      order: page.order,
      filter: { agentId, archived, text: search?.text },
    };
    const after = decodeCursor(page.cursor, list);
    // What was found is read again under the tenant's policy, which has the last word.
    const found =
      search === undefined
        ? null
        : await search.by.find({ ...viewer, agentId, archived, after, ...page, text: search.text });
    if (found?.length === 0) return { items: [], nextCursor: null };
    const rows = await this.#database.transaction(viewer.tenantId, (transaction) =>
      selectConversations(transaction, viewer.user)
        .$if(found !== null, (query) => query.where("conversation.id", "in", found ?? []))
        .$if(agentId !== undefined, (query) => query.where("conversation.agent_id", "=", agentId ?? ""))
        .$if(archived !== undefined, (query) =>
          query.where("conversation.archived_at", archived === true ? "is not" : "is", null),
        )
        .$if(after !== null, (query) => query.where(beyond("conversation.id", page.order, after ?? "")))
        .orderBy("conversation.id", page.order)
        .limit(page.limit + 1)
        .execute(),
    );
    return pageOf(rows, { limit: page.limit, list }, { key: (row) => row.id, item: conversationRow });
  }

  /** `null` when the viewer may not see it. Errors: `conversation_deleting`. */
  async change(viewer: Viewer, conversationId: string, command: ChangeCommand): Promise<ConversationRow | null> {
    return this.#database.transaction(viewer.tenantId, async (transaction) => {
      const locked = await transaction
        .selectFrom("signalbox.ownership")
        .select("conversation_id")
        .where("conversation_id", "=", conversationId)
        .forUpdate()
        .executeTakeFirst();
      const find = selectConversations(transaction, viewer.user).where("conversation.id", "=", conversationId);
      const before = locked === undefined ? undefined : await find.executeTakeFirst();
      if (before === undefined) return null;
      await changeConversation(transaction, { ...command, tenantId: viewer.tenantId, before: conversationRow(before) });
      return conversationRow(await find.executeTakeFirstOrThrow());
    });
  }
}

export interface ChangeCommand {
  readonly change: ConversationChange;
  readonly actor: Actor;
}

async function changeConversation(
  transaction: TenantTransaction,
  command: ChangeCommand & { readonly tenantId: string; readonly before: ConversationRow },
): Promise<void> {
  const { before, tenantId, actor } = command;
  if (before.deleteRequestedAtMs !== null) throw new PlatformError("conversation_deleting");
  const { title, metadata, archived } = command.change;
  const renamed = title !== undefined && title !== before.title;
  const labelled = metadata !== undefined && canonicalJson(metadata) !== canonicalJson(before.metadata);
  const moved = archived !== undefined && archived !== before.archived;
  if (!renamed && !labelled && !moved) return;
  await transaction
    .updateTable("signalbox.conversation")
    .set({
      updated_at: clock(),
      ...(renamed ? { title } : {}),
      ...(labelled ? { metadata: JSON.stringify(metadata) } : {}),
      ...(moved ? { archived_at: archived ? clock() : null } : {}),
    })
    .where("id", "=", before.conversationId)
    .execute();
  await writeAudit({
    tenantId,
    action: "conversation_changed",
    actor: actorText(actor),
    conversationId: before.conversationId,
    facts: canonicalJson({
      ...(renamed ? { title: true } : {}),
      ...(labelled ? { metadata: true } : {}),
      ...(moved ? { archived } : {}),
    }),
  }).execute(transaction);
}

async function insertConversation(
  transaction: TenantTransaction,
  conversation: NewConversation,
): Promise<ConversationRow> {
  const { tenantId: tenant_id, conversationId: id, agentId: agent_id, title, metadata, actor } = conversation;
  const created_by = actorText(actor);
  const participant = actor.user;
  try {
    await transaction
      .insertInto("signalbox.conversation")
      .values({ id, tenant_id, agent_id, title, created_by, participant, metadata: JSON.stringify(metadata) })
      .execute();
  } catch (thrown) {
    if (violatedConstraint(thrown) === "conversation_agent") {
      throw new PlatformError("not_found", "There is no such agent.", { cause: thrown });
    }
    throw thrown;
  }
  await transaction.insertInto("signalbox.ownership").values({ conversation_id: id, tenant_id }).execute();
  await writeAudit({
    tenantId: tenant_id,
    action: "conversation_created",
    actor: created_by,
    conversationId: id,
    facts: canonicalJson({ agentId: agent_id }),
  }).execute(transaction);
  const row = await selectConversations(transaction, null).where("conversation.id", "=", id).executeTakeFirstOrThrow();
  return conversationRow(row);
}

async function insertFork(transaction: TenantTransaction, fork: NewFork): Promise<ConversationRow> {
  const { tenantId, conversationId, from, messageId, actor } = fork;
  const { rows } = await forkConversation({
    tenantId,
    user: actor.user,
    from,
    messageId,
    conversationId,
    actor: actorText(actor),
  }).execute(transaction);
  const answer = rows[0]?.answer;
  if (answer?.code === "conversation_deleting") {
    throw new PlatformError(
      answer.code,
      "The conversation is being deleted; nothing begins with its history any more.",
    );
  }
  if (answer?.code !== undefined) {
    throw new PlatformError("not_found", answer.detail, {
      fields: answer.detail === undefined ? [] : [{ pointer: "/messageId", detail: "no such message" }],
    });
  }
  const row = await selectConversations(transaction, null)
    .where("conversation.id", "=", conversationId)
    .executeTakeFirstOrThrow();
  return conversationRow(row);
}

function selectConversations(transaction: TenantTransaction, user: string | null) {
  return transaction
    .selectFrom("signalbox.conversation as conversation")
    .innerJoin("signalbox.ownership as ownership", "ownership.conversation_id", "conversation.id")
    .innerJoin("signalbox.agent as agent", "agent.id", "conversation.agent_id")
    .$if(user !== null, (query) => query.where("conversation.participant", "=", user))
    .select([
      "conversation.id",
      "conversation.agent_id",
      "agent.name as agent_name",
      "conversation.title",
      "conversation.participant",
      "conversation.metadata",
      "conversation.last_sequence",
      "conversation.kept_sequence",
      "conversation.forked_from",
      "conversation.archived_at",
      "conversation.delete_requested_at",
      "conversation.created_at",
      "conversation.updated_at",
      "ownership.generation",
      "ownership.owner",
      activeRunOf().as("active_run"),
      queueOf().as("queue"),
      activeRunWaitsFor().as("waiting_for"),
    ]);
}

interface ConversationRecord {
  readonly id: string;
  readonly agent_id: string;
  readonly agent_name: string;
  readonly title: string | null;
  readonly participant: string | null;
  readonly metadata: unknown;
  readonly last_sequence: number;
  readonly kept_sequence: number;
  readonly forked_from: string | null;
  readonly archived_at: Date | null;
  readonly delete_requested_at: Date | null;
  readonly created_at: Date;
  readonly updated_at: Date;
  readonly generation: number;
  readonly owner: number | null;
  readonly active_run: ConversationRow["activeRun"];
  readonly queue: ConversationRow["queue"];
  readonly waiting_for: readonly Wait[];
}

function conversationRow(row: ConversationRecord): ConversationRow {
  return {
    // Ids and metadata are what `create` stored; their form was checked where they entered.
    conversationId: row.id as ConversationId,
    agentId: row.agent_id as AgentId,
    agentName: row.agent_name,
    title: row.title,
    participant: row.participant,
    metadata: row.metadata as Readonly<Record<string, string>>,
    lastSequence: row.last_sequence,
    keptSequence: row.kept_sequence,
    forkedFrom: row.forked_from as ConversationId | null,
    activeRun: row.active_run,
    queue: row.queue,
    waitingFor: row.waiting_for,
    generation: row.generation,
    owner: row.owner,
    archived: row.archived_at !== null,
    deleteRequestedAtMs: row.delete_requested_at?.getTime() ?? null,
    createdAtMs: row.created_at.getTime(),
    updatedAtMs: row.updated_at.getTime(),
  };
}
