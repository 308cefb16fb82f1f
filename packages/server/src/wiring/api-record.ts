/** Joins the API to the store: rows become what the outside sees, and what is missing becomes `not_found`. */
import {
  createAgentSchema,
  PlatformError,
  runStatus,
  type CreateAgent,
  type Message,
  type PageQuery,
  type SnapshotTool,
} from "@signalbox/contract";
import type { PinnedTool as Pin, ToolStore } from "@signalbox/core";
import type {
  ApiRecord,
  Once,
  Page,
  PinnedTool,
  Recorded,
  StoredAgent,
  StoredConversation,
  StoredEvent,
  StoredRun,
} from "../api/api-record.ts";
import type { AgentQueries, AgentRow } from "../store/queries/agent-queries.ts";
import type { ApiKeyQueries } from "../store/queries/api-key-queries.ts";
import type { ConversationQueries, ConversationRow } from "../store/queries/conversation-queries.ts";
import type { EventQueries } from "../store/queries/event-queries.ts";
import type { MessageQueries, MessageRow } from "../store/queries/message-queries.ts";
import type { Page as RowPage, PageRequest } from "../store/queries/page.ts";
import type { RunQueries, RunRow } from "../store/queries/run-queries.ts";
import { wireName } from "../tool-gate/tool-definition.ts";

/** Every tool of this release runs behind the tool gate, where a worker has neither credential nor route. */
const GRADE = "contained";

export interface Queries {
  readonly agents: AgentQueries;
  readonly apiKeys: ApiKeyQueries;
  readonly conversations: ConversationQueries;
  readonly events: EventQueries;
  readonly messages: MessageQueries;
  readonly runs: RunQueries;
  readonly tools: ToolStore;
}

export function createApiRecord(queries: Queries): ApiRecord {
  const pins = async (tenantId: string): Promise<ReadonlyMap<string, Pin>> =>
    new Map((await queries.tools.list(tenantId)).map((pin) => [`${pin.server}/${pin.tool}`, pin]));
  const showAgents = async (tenantId: string, rows: readonly AgentRow[]): Promise<readonly StoredAgent[]> => {
    const known = await pins(tenantId);
    return rows.map((row) => agentOf(row, known));
  };
  return {
    async apiKey(hmac) {
      const row = await queries.apiKeys.findByHash(hmac);
      return row === null ? null : { id: row.keyId, tenantId: row.tenantId, name: row.name, rights: row.rights };
    },
    async createAgent({ tenantId }, { id, actor, definition }, once) {
      const known = await pins(tenantId);
      const show = (row: AgentRow): StoredAgent => agentOf(row, known);
      const { name, runtime } = definition;
      const recorded = await queries.agents.create(
        { tenantId, agentId: id, name, runtime, definition, actor },
        onceOf(once, show),
      );
      return shown(recorded, show);
    },
    async agent({ tenantId }, idOrName) {
      const row = present(await queries.agents.find(tenantId, idOrName));
      return present((await showAgents(tenantId, [row]))[0] ?? null);
    },
    async agents({ tenantId }, page) {
      const rows = await queries.agents.list(tenantId, requestOf(page));
      return { data: await showAgents(tenantId, rows.items), nextCursor: rows.nextCursor };
    },
    async createConversation(scope, { id, actor, definition }, once) {
      const { tenantId } = scope;
      const agent = await queries.agents.find(tenantId, definition.agent);
      if (agent === null) {
        throw new PlatformError("not_found", `There is no agent "${definition.agent}".`, {
          fields: [{ pointer: "/agent", detail: "no such agent" }],
        });
      }
      const { title, metadata } = definition;
      const row = { tenantId, conversationId: id, agentId: agent.agentId, title, metadata, actor };
      return shown(await queries.conversations.create(row, onceOf(once, conversationOf)), conversationOf);
    },
    async conversation(scope, id) {
      return conversationOf(present(await queries.conversations.find(scope, id)));
    },
    async conversations(scope, page) {
      return pageOf(await queries.conversations.list(scope, requestOf(page)), conversationOf);
    },
    async messages(scope, conversationId, page) {
      present(await queries.events.head(scope, conversationId));
      return pageOf(await queries.messages.list(scope, conversationId, requestOf(page)), messageOf);
    },
    async run(scope, id) {
      return runOf(present(await queries.runs.find(scope, id)));
    },
    async runs(scope, { conversation, ...page }) {
      const filter = conversation === null ? {} : { conversationId: conversation };
      return pageOf(await queries.runs.list(scope, requestOf(page), filter), runOf);
    },
    async accepted(scope, messageId, runId) {
      const [message, run] = await Promise.all([
        queries.messages.find(scope, messageId),
        queries.runs.find(scope, runId),
      ]);
      return { message: messageOf(present(message)), run: runOf(present(run)) };
    },
    async events(scope, conversationId, after, limit) {
      const events = await queries.events.after(scope, conversationId, { afterSequence: after, limit });
      return events.map((event): StoredEvent => {
        if (event.sequence === null) throw new PlatformError("internal", "The log holds an event without a sequence.");
        return { sequence: event.sequence, type: event.type, runId: event.runId, json: JSON.stringify(event) };
      });
    },
    async tools({ tenantId }, references) {
      const known = await pins(tenantId);
      return references.flatMap((reference) => {
        const pin = known.get(reference);
        const name = pin === undefined ? null : wireName(pin.server, pin.tool);
        return pin === undefined || name === null ? [] : [pinnedTool({ reference, name, pin })];
      });
    },
  };
}

function agentOf(row: AgentRow, pins: ReadonlyMap<string, Pin>): StoredAgent {
  // Stored by `createAgent` from exactly this schema; parsing again fills defaults of fields that came later.
  const definition: CreateAgent = createAgentSchema.parse(row.definition);
  return {
    id: row.agentId,
    name: row.name,
    revision: row.revision,
    runtime: row.runtime,
    model: definition.model,
    instructions: definition.instructions,
    tools: definition.tools.map((reference) => ({
      reference,
      effect: pins.get(reference)?.effect ?? "irreversible",
      grade: GRADE,
    })),
    maxOutputTokens: definition.maxOutputTokens,
    createdAt: timeOf(row.createdAtMs),
  };
}

function conversationOf(row: ConversationRow): StoredConversation {
  return {
    id: row.conversationId,
    title: row.title,
    agent: { id: row.agentId, name: row.agentName },
    participants: row.participant === null ? [] : [{ user: row.participant }],
    activeRun: row.activeRun === null ? null : { id: row.activeRun.runId, status: runStatus(row.activeRun.state) },
    queue: row.queue.map((each) => ({ ...each })),
    lastSequence: row.lastSequence,
    metadata: { ...row.metadata },
    createdAt: timeOf(row.createdAtMs),
    updatedAt: timeOf(row.updatedAtMs),
  };
}

function messageOf(row: MessageRow): Message {
  return {
    id: row.messageId,
    conversationId: row.conversationId,
    runId: row.runId,
    role: row.role,
    content: row.text,
    partial: row.partial,
    metadata: { ...row.metadata },
    createdAt: timeOf(row.createdAtMs),
  };
}

function runOf(row: RunRow): StoredRun {
  return {
    id: row.runId,
    conversationId: row.conversationId,
    messageId: row.messageId,
    agent: { id: row.agentId, name: row.agentName, revision: row.agentRevision },
    runtime: row.runtime,
    requested: { ...row.requested },
    granted: { ...row.granted },
    servedModel: row.servedModel,
    status: runStatus(row.state),
    reason: row.reason,
    generation: row.generation,
    owner: row.owner,
    attempt: row.attempt,
    rung: row.rung,
    containment: GRADE,
    cancelRequestedAt: timeOrNull(row.cancelRequestedAtMs),
    usage: { ...row.usage, modelCalls: row.modelCallCount, toolCalls: row.toolCallCount },
    costMicros: row.costMicros,
    answerMessageId: row.answerMessageId,
    error: row.error,
    traceId: row.traceId,
    acceptedAt: timeOf(row.acceptedAtMs),
    startedAt: timeOrNull(row.startedAtMs),
    finishedAt: timeOrNull(row.finishedAtMs),
    cursor: row.cursor,
  };
}

function pinnedTool(found: { readonly reference: string; readonly name: string; readonly pin: Pin }): PinnedTool {
  const { reference, name, pin } = found;
  const { description, inputSchema } = pin.definition;
  const tool: SnapshotTool = {
    name,
    server: pin.server,
    tool: pin.tool,
    title: pin.title,
    description: typeof description === "string" ? description : "",
    effect: pin.effect,
    definitionHash: pin.definitionHash,
    inputSchema: isRecord(inputSchema) ? inputSchema : { type: "object" },
  };
  return { ...tool, reference };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function onceOf<Row, Shown>(once: Once<Shown> | null, show: (row: Row) => Shown): Once<Row> | null {
  if (once === null) return null;
  const { key, route, bodyHash } = once;
  return { key, route, bodyHash, answer: (row) => once.answer(show(row)) };
}

function shown<Row, Shown>(recorded: Recorded<Row>, show: (row: Row) => Shown): Recorded<Shown> {
  return recorded.kind === "created" ? { kind: "created", value: show(recorded.value) } : recorded;
}

function present<T>(row: T | null): T {
  if (row === null) throw new PlatformError("not_found");
  return row;
}

function requestOf(page: PageQuery): PageRequest {
  return { limit: page.limit, cursor: page.cursor ?? null, order: page.order };
}

function pageOf<Row, Shown>(page: RowPage<Row>, show: (row: Row) => Shown): Page<Shown> {
  return { data: page.items.map(show), nextCursor: page.nextCursor };
}

function timeOf(atMs: number): string {
  return new Date(atMs).toISOString();
}

function timeOrNull(atMs: number | null): string | null {
  return atMs === null ? null : timeOf(atMs);
}
