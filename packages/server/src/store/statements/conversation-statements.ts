/** Fragments of the queries over `signalbox.conversation as conversation`. */
import { sql, type RawBuilder } from "kysely";
import type { ConversationRow } from "../queries/conversation-queries.ts";
import type { SearchRequest } from "../queries/conversation-search.ts";

export interface ForkPlace {
  readonly tenantId: string;
  readonly user: string | null;
  readonly from: string;
  readonly messageId: string | null;
  readonly conversationId: string;
  readonly actor: string;
}

export interface ForkAnswer {
  readonly answer: { readonly code?: string; readonly detail?: string };
}

export function forkConversation(fork: ForkPlace): RawBuilder<ForkAnswer> {
  const { tenantId, user, from, messageId, conversationId, actor } = fork;
  return sql`select signalbox.fork_conversation(
    ${tenantId}, ${user}, ${from}, ${messageId}, ${conversationId}, ${actor}) as answer`;
}

export function activeRunOf(): RawBuilder<ConversationRow["activeRun"]> {
  return sql`(
    select json_build_object('runId', active.id, 'state', active.state)
    from signalbox.run as active
    where active.conversation_id = conversation.id
      and active.state in ('admitted', 'running', 'suspended', 'finalizing'))`;
}

export function queueOf(): RawBuilder<ConversationRow["queue"]> {
  return sql`coalesce((
    select json_agg(json_build_object('runId', waiting.id, 'messageId', waiting.message_id, 'position', waiting.place)
                    order by waiting.place)
    from (
      select queued.id, queued.message_id,
             row_number() over (order by queued.position) - 1 + (
               select count(*) from signalbox.run as active
               where active.conversation_id = conversation.id
                 and active.state in ('admitted', 'running', 'suspended', 'finalizing')) as place
      from signalbox.run as queued
      where queued.conversation_id = conversation.id and queued.state = 'queued'
        and queued.consumed_at is null) as waiting), '[]'::json)`;
}

/** For the rest of this transaction. */
export function boundStatement(limitMs: number): RawBuilder<unknown> {
  return sql`select set_config('statement_timeout', ${String(limitMs)}, true)`;
}

export function findConversations(search: SearchRequest): RawBuilder<{ readonly found: readonly string[] }> {
  const { tenantId, user, archived, agentId, text, after, order, limit } = search;
  return sql`select signalbox.find_conversations(${tenantId}, ${user}, ${archived ?? null}, ${agentId ?? null}, ${text}, ${after},
    ${order === "desc"}, ${limit + 1}) as found`;
}
