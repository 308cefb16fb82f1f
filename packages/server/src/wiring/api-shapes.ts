/** Rows of the store as the API shows them. */
import { createAgentSchema, runStatus, type AgentRevision, type CreateAgent, type Message } from "@signalbox/contract";
import type { PinnedTool as Pin } from "@signalbox/core";
import type { PinnedTool, StoredAgent, StoredConversation, StoredRun } from "../api/api-record.ts";
import type { AgentRow, RevisionRow } from "../store/queries/agent-queries.ts";
import type { ConversationRow } from "../store/queries/conversation-queries.ts";
import type { MessageRow } from "../store/queries/message-queries.ts";
import type { RunRow } from "../store/queries/run-queries.ts";
import { systemDigest } from "../system/ports.ts";
import { wireName } from "../tool-gate/tool-definition.ts";

/** Every tool of this release runs behind the tool gate, where a worker has neither credential nor route. */
const GRADE = "contained";

/** A tenant's pins by `server/tool`. */
export type Pins = ReadonlyMap<string, Pin>;

export function agentOf(row: AgentRow, pins: Pins): StoredAgent {
  return { ...answeringOf(row, pins), disabled: row.disabled };
}

/** Whether the agent is disabled is decided where a message is let in. */
export function answeringOf(row: RevisionRow & { readonly name: string }, pins: Pins): Omit<StoredAgent, "disabled"> {
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
    clientTools: definition.clientTools,
    askUser: definition.askUser,
    maxOutputTokens: definition.maxOutputTokens,
    whenBusy: definition.whenBusy,
    createdAt: timeOf(row.createdAtMs),
  };
}

export function revisionOf(row: RevisionRow): AgentRevision {
  const { name: _, runtime: __, ...definition } = createAgentSchema.parse(row.definition);
  const { agentId, revision, runtime } = row;
  return { agentId, revision, runtime, ...definition, createdAt: timeOf(row.createdAtMs) };
}

export function conversationOf(row: ConversationRow): StoredConversation {
  return {
    id: row.conversationId,
    title: row.title,
    agent: { id: row.agentId, name: row.agentName },
    participants: row.participant === null ? [] : [{ user: row.participant }],
    activeRun: row.activeRun === null ? null : { id: row.activeRun.runId, status: runStatus(row.activeRun.state) },
    queue: row.queue.map((each) => ({ ...each })),
    waitingFor: row.waitingFor.map((wait) => ({ ...wait })),
    lastSequence: row.lastSequence,
    keptSequence: row.keptSequence,
    forkedFrom: row.forkedFrom,
    metadata: { ...row.metadata },
    archived: row.archived,
    deleteRequestedAt: timeOrNull(row.deleteRequestedAtMs),
    createdAt: timeOf(row.createdAtMs),
    updatedAt: timeOf(row.updatedAtMs),
  };
}

export function messageOf(row: MessageRow): Message {
  return {
    id: row.messageId,
    conversationId: row.conversationId,
    runId: row.runId,
    role: row.role,
    content: row.text,
    partial: row.partial,
    struck: row.struck,
    metadata: { ...row.metadata },
    createdAt: timeOf(row.createdAtMs),
  };
}

export function runOf(row: RunRow): StoredRun {
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
    waitingFor: row.waitingFor.map((wait) => ({ ...wait })),
    cancelRequestedAt: timeOrNull(row.cancelRequestedAtMs),
    usage: { ...row.usage, modelCalls: row.modelCallCount, toolCalls: row.toolCallCount },
    costMicros: row.costMicros,
    retryOf: typeof row.requested.retryOf === "string" ? row.requested.retryOf : null,
    answerMessageId: row.answerMessageId,
    error: row.error,
    traceId: row.traceId,
    acceptedAt: timeOf(row.acceptedAtMs),
    startedAt: timeOrNull(row.startedAtMs),
    finishedAt: timeOrNull(row.finishedAtMs),
    cursor: row.cursor,
  };
}

/** The pinned tools among these references; what is not pinned is left out. */
export function pinnedTools(references: readonly string[], pins: Pins): readonly PinnedTool[] {
  return references.flatMap((reference) => {
    const pin = pins.get(reference);
    if (pin === undefined) return [];
    return [{ ...toolOf(pin), name: wireName(pin.server, pin.tool, systemDigest), reference }];
  });
}

function toolOf(pin: Pin): Omit<PinnedTool, "name" | "reference"> {
  const { server, tool, title, effect, definitionHash, definition } = pin;
  const { description, inputSchema } = definition;
  return {
    server,
    tool,
    title,
    description: typeof description === "string" ? description : "",
    effect,
    definitionHash,
    inputSchema: isRecord(inputSchema) ? inputSchema : { type: "object" },
  };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function timeOf(atMs: number): string {
  return new Date(atMs).toISOString();
}

export function timeOrNull(atMs: number | null): string | null {
  return atMs === null ? null : timeOf(atMs);
}
