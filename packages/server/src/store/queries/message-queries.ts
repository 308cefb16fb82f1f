/** The history: what people see and trust. */
import type { ConversationId, MessageId, RunId } from "@signalbox/contract";
import { beyond } from "../statements/tenant-statements.ts";
import type { TenantDatabase, TenantTransaction } from "../tenant-database.ts";
import { decodeNumberCursor, pageOf, type Page, type PageRequest } from "./page.ts";
import type { Viewer } from "./viewer.ts";

export interface MessageRow {
  readonly messageId: MessageId;
  readonly conversationId: ConversationId;
  /** `null` for what a fork began with. */
  readonly runId: RunId | null;
  readonly role: "user" | "assistant";
  readonly text: string;
  /** True when the run ended before the answer was whole. */
  readonly partial: boolean;
  /** True when its turn was rolled back. */
  readonly struck: boolean;
  readonly metadata: Readonly<Record<string, string>>;
  readonly createdAtMs: number;
}

export class MessageQueries {
  readonly #database: TenantDatabase;

  constructor(database: TenantDatabase) {
    this.#database = database;
  }

  async find(viewer: Viewer, messageId: string): Promise<MessageRow | null> {
    const row = await this.#database.transaction(viewer.tenantId, (transaction) =>
      selectMessages(transaction, viewer.user).where("message.id", "=", messageId).executeTakeFirst(),
    );
    return row === undefined ? null : messageRow(row);
  }

  /** A question and its answer stand together, in the order the questions were acknowledged. */
  async list(viewer: Viewer, conversationId: string, page: PageRequest): Promise<Page<MessageRow>> {
    const list = { name: "messages", ...viewer, order: page.order, filter: { conversationId } };
    const after = decodeNumberCursor(page.cursor, list);
    const rows = await this.#database.transaction(viewer.tenantId, (transaction) =>
      selectMessages(transaction, viewer.user)
        .where("message.conversation_id", "=", conversationId)
        .$if(after !== null, (query) => query.where(beyond("message.position", page.order, after ?? 0)))
        .orderBy("message.position", page.order)
        .limit(page.limit + 1)
        .execute(),
    );
    return pageOf(rows, { limit: page.limit, list }, { key: (row) => String(row.position), item: messageRow });
  }
}

function selectMessages(transaction: TenantTransaction, user: string | null) {
  return transaction
    .selectFrom("signalbox.message as message")
    .innerJoin("signalbox.conversation as conversation", "conversation.id", "message.conversation_id")
    .$if(user !== null, (query) => query.where("conversation.participant", "=", user))
    .select([
      "message.id",
      "message.conversation_id",
      "message.run_id",
      "message.role",
      "message.text",
      "message.partial",
      "message.struck",
      "message.metadata",
      "message.position",
      "message.created_at",
    ]);
}

type MessageRecord = Awaited<ReturnType<ReturnType<typeof selectMessages>["executeTakeFirstOrThrow"]>>;

function messageRow(row: MessageRecord): MessageRow {
  return {
    // Ids and metadata are what admission and finalization stored.
    messageId: row.id as MessageId,
    conversationId: row.conversation_id as ConversationId,
    runId: row.run_id as RunId | null,
    role: row.role,
    text: row.text,
    partial: row.partial,
    struck: row.struck,
    metadata: row.metadata as Readonly<Record<string, string>>,
    createdAtMs: row.created_at.getTime(),
  };
}
