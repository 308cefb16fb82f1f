/** Rows as the outside sees them: the API adds its addresses and the facts that follow from the release. */
import { NO_USAGE, type AcceptedMessage, type Agent, type Conversation, type Run } from "@signalbox/contract";
import type { StoredAgent, StoredConversation, StoredRun } from "./api-record.ts";

export function showAgent(agent: StoredAgent): Agent {
  return { ...agent, plan: "none", warnings: [] };
}

export function showConversation(conversation: StoredConversation): Conversation {
  return {
    ...conversation,
    eventsUrl: conversation.keptSequence === 0 ? eventsUrl(conversation.id, 0) : oldestEventsUrl(conversation.id),
  };
}

export function showRun(stored: StoredRun): Run {
  const { cursor, ...run } = stored;
  return { ...run, eventsUrl: eventsUrl(run.conversationId, cursor) };
}

/** From the oldest event that is kept. */
export function oldestEventsUrl(conversationId: string): string {
  return `/v1/conversations/${conversationId}/events`;
}

export function eventsUrl(conversationId: string, after: number): string {
  return `/v1/conversations/${conversationId}/events?after=${after}`;
}

/**
 * The run as it was when its message was acknowledged: the same on the first answer and on every replay, however far
 * the run has come meanwhile.
 */
export function acknowledgedRun(stored: StoredRun, accepted: AcceptedMessage["accepted"]): Run {
  return {
    ...showRun(stored),
    status: accepted === "started" ? "running" : "queued",
    reason: null,
    generation: 0,
    owner: null,
    attempt: 0,
    rung: null,
    servedModel: null,
    waitingFor: [],
    cancelRequestedAt: null,
    usage: { ...NO_USAGE, modelCalls: 0, toolCalls: 0 },
    costMicros: null,
    answerMessageId: null,
    error: null,
    startedAt: null,
    finishedAt: null,
  };
}
