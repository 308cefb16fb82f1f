/** Joins the API to the store: rows become what the outside sees, and what is missing becomes `not_found`. */
import { PlatformError, wellFormed, type PageQuery } from "@signalbox/contract";
import type { PinnedTool, ToolStore } from "@signalbox/core";
import {
  storedEvent,
  type ApiRecord,
  type Once,
  type Page,
  type Recorded,
  type StoredAgent,
} from "../api/api-record.ts";
import type { DeletionRecord } from "../channels/truth/deletion-record.ts";
import type { AgentQueries, AgentRow } from "../store/queries/agent-queries.ts";
import type { AnsweringCache } from "../store/queries/answering-cache.ts";
import type { ApiKeyQueries } from "../store/queries/api-key-queries.ts";
import type { ConversationQueries } from "../store/queries/conversation-queries.ts";
import type { ConversationSearch } from "../store/queries/conversation-search.ts";
import type { EventQueries } from "../store/queries/event-queries.ts";
import type { FeedQueries } from "../store/queries/feed-queries.ts";
import type { IdempotencyQueries } from "../store/queries/idempotency-queries.ts";
import type { MessageQueries } from "../store/queries/message-queries.ts";
import type { Page as RowPage, PageRequest } from "../store/queries/page.ts";
import type { ToolCommands } from "../store/queries/tool-commands.ts";
import type { RunQueries } from "../store/queries/run-queries.ts";
import {
  agentOf,
  answeringOf,
  conversationOf,
  messageOf,
  pinnedTools,
  revisionOf,
  runOf,
  type Pins,
} from "./api-shapes.ts";
import { present } from "./present.ts";

export interface Queries {
  readonly agents: AgentQueries;
  readonly answering: AnsweringCache;
  readonly apiKeys: ApiKeyQueries;
  readonly conversations: ConversationQueries;
  readonly deletion: DeletionRecord;
  readonly events: EventQueries;
  readonly feed: FeedQueries;
  readonly idempotency: IdempotencyQueries;
  readonly messages: MessageQueries;
  readonly runs: RunQueries;
  readonly search: ConversationSearch;
  readonly tools: ToolStore;
  readonly toolCommands: ToolCommands;
}

export function createApiRecord(queries: Queries): ApiRecord {
  return { ...keys(queries), ...agents(queries), ...conversations(queries), ...messages(queries), ...runs(queries) };
}

function keys(queries: Queries): Pick<ApiRecord, "apiKey" | "answered"> {
  return {
    async apiKey(hmac) {
      const row = await queries.apiKeys.findByHash(hmac);
      return row === null ? null : { id: row.keyId, tenantId: row.tenantId, name: row.name, rights: row.rights };
    },
    answered: ({ tenantId }, key) => queries.idempotency.answered(tenantId, key),
  };
}

function agents(
  queries: Queries,
): Pick<ApiRecord, "createAgent" | "changeAgent" | "agent" | "agents" | "revisions" | "answering" | "tools"> {
  return {
    async changeAgent({ tenantId }, { actor, id: agentId, change }) {
      const { disabled = null, revision = null, ...fields } = change;
      const row = await queries.agents.change({ tenantId, agentId, fields, disabled, revision, actor });
      queries.answering.forgetAgent(agentId);
      return agentOf(row, await pinsOf(queries, tenantId));
    },
    async revisions({ tenantId }, agentId, page) {
      return pageOf(await queries.agents.revisions({ tenantId, agentId }, requestOf(page)), revisionOf);
    },
    async createAgent({ tenantId }, { id, actor, definition }, once) {
      const known = await pinsOf(queries, tenantId);
      const show = (row: AgentRow): StoredAgent => agentOf(row, known);
      const { name, runtime } = definition;
      const row = { tenantId, agentId: id, name, runtime, definition, actor };
      return shown(await queries.agents.create(row, onceOf(once, show)), show);
    },
    async agent({ tenantId }, idOrName) {
      const [row, known] = await Promise.all([queries.agents.find(tenantId, idOrName), pinsOf(queries, tenantId)]);
      return agentOf(present(row), known);
    },
    async agents({ tenantId }, page) {
      const known = await pinsOf(queries, tenantId);
      return pageOf(await queries.agents.list(tenantId, requestOf(page)), (row) => agentOf(row, known));
    },
    async answering(scope, conversationId) {
      const row = present(await queries.answering.find(scope, conversationId));
      const known = pinsBy(row.pins);
      const agent = answeringOf(row, known);
      const references = agent.tools.map((tool) => tool.reference);
      return { agent, tools: pinnedTools(references, known) };
    },
    async tools({ tenantId }, references) {
      return pinnedTools(references, await pinsOf(queries, tenantId));
    },
  };
}

function conversations(
  queries: Queries,
): Pick<
  ApiRecord,
  | "createConversation"
  | "changeConversation"
  | "deleteConversation"
  | "forkConversation"
  | "conversation"
  | "conversations"
> {
  return {
    async createConversation({ tenantId }, { id, actor, definition }, once) {
      const agent = await queries.agents.find(tenantId, definition.agent);
      if (agent === null) {
        throw new PlatformError("not_found", `There is no agent "${definition.agent}".`, {
          fields: [{ pointer: "/agent", detail: "no such agent" }],
        });
      }
      const { title, metadata } = definition;
      const { agentId } = agent;
      const row = { tenantId, conversationId: id, agentId, title, metadata, actor };
      const recorded = await queries.conversations.create(row, onceOf(once, conversationOf));
      if (recorded.kind === "created") queries.answering.note(id, { tenantId, participant: actor.user, agentId });
      return shown(recorded, conversationOf);
    },
    async forkConversation({ tenantId }, { id, actor, from, messageId }, once) {
      const row = { tenantId, conversationId: id, from, messageId, actor };
      return shown(await queries.conversations.fork(row, onceOf(once, conversationOf)), conversationOf);
    },
    async conversation(scope, id) {
      return conversationOf(present(await queries.conversations.find(scope, id)));
    },
    async changeConversation(scope, { id, actor, change }) {
      return conversationOf(present(await queries.conversations.change(scope, id, { change, actor })));
    },
    deleteConversation: ({ tenantId, user }, { id, actor }) =>
      queries.deletion.delete({ tenantId, user, conversationId: id, actor }),
    async conversations(scope, { agent, archived, q, ...page }) {
      const found = agent === undefined ? null : await queries.agents.find(scope.tenantId, agent);
      if (found === null && agent !== undefined) return { data: [], nextCursor: null };
      const filter = {
        ...(found === null ? {} : { agentId: found.agentId }),
        ...(archived === "all" ? {} : { archived: archived === "true" }),
        ...(q === undefined ? {} : { search: { text: wellFormed(q), by: queries.search } }),
      };
      return pageOf(await queries.conversations.list(scope, requestOf(page), filter), conversationOf);
    },
  };
}

function messages(
  queries: Queries,
): Pick<ApiRecord, "messages" | "message" | "accepted" | "events" | "place" | "feed" | "isThere"> {
  return {
    isThere: async (scope, conversationId) => (await queries.events.place(scope, conversationId)) !== null,
    async messages(scope, conversationId, page) {
      present(await queries.events.place(scope, conversationId));
      return pageOf(await queries.messages.list(scope, conversationId, requestOf(page)), messageOf);
    },
    async message(scope, id) {
      return messageOf(present(await queries.messages.find(scope, id)));
    },
    async accepted(scope, { messageId, runId }) {
      const [message, run] = await Promise.all([
        queries.messages.find(scope, messageId),
        queries.runs.find(scope, runId),
      ]);
      return { message: messageOf(present(message)), run: runOf(present(run)) };
    },
    async events(scope, conversationId, range) {
      const { events, more } = await queries.events.page(scope, conversationId, {
        afterSequence: range.after,
        limit: range.limit,
      });
      return { events: events.map(storedEvent), more };
    },
    async place(scope, conversationId) {
      return present(await queries.events.place(scope, conversationId));
    },
    async feed(scope, range) {
      const { events, nextCursor, more } = await queries.feed.read(scope, range);
      return { rows: events.map(({ cursor, event }) => ({ ...storedEvent(event), cursor })), nextCursor, more };
    },
  };
}

function runs(queries: Queries): Pick<ApiRecord, "run" | "runs"> {
  return {
    async run(scope, id) {
      return runOf(present(await queries.runs.find(scope, id)));
    },
    async runs(scope, { conversation, ...page }) {
      const filter = conversation === null ? {} : { conversationId: conversation };
      return pageOf(await queries.runs.list(scope, requestOf(page), filter), runOf);
    },
  };
}

async function pinsOf(queries: Queries, tenantId: string): Promise<Pins> {
  return pinsBy(await queries.tools.list(tenantId));
}

function pinsBy(pins: readonly PinnedTool[]): Pins {
  return new Map(pins.map((pin) => [`${pin.server}/${pin.tool}`, pin]));
}

function onceOf<Row, Shown>(once: Once<Shown> | null, show: (row: Row) => Shown): Once<Row> | null {
  if (once === null) return null;
  const { key, route, bodyHash } = once;
  return { key, route, bodyHash, answer: (row) => once.answer(show(row)) };
}

function shown<Row, Shown>(recorded: Recorded<Row>, show: (row: Row) => Shown): Recorded<Shown> {
  return recorded.kind === "created" ? { kind: "created", value: show(recorded.value) } : recorded;
}

function requestOf(page: PageQuery): PageRequest {
  return { limit: page.limit, cursor: page.cursor ?? null, order: page.order };
}

function pageOf<Row, Shown>(page: RowPage<Row>, show: (row: Row) => Shown): Page<Shown> {
  return { data: page.items.map(show), nextCursor: page.nextCursor };
}
