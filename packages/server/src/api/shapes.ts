/** Rows as the outside sees them: the API adds its addresses and the facts that follow from the release. */
import type { Agent, Conversation, Run } from "@signalbox/contract";
import type { StoredAgent, StoredConversation, StoredRun } from "./api-record.ts";

export function showAgent(agent: StoredAgent, warnings: Agent["warnings"] = []): Agent {
  return { ...agent, plan: "none", whenBusy: "enqueue", warnings };
}

export function showConversation(conversation: StoredConversation): Conversation {
  return { ...conversation, waitingFor: [], eventsUrl: eventsUrl(conversation.id, 0) };
}

export function showRun(stored: StoredRun): Run {
  const { cursor, ...run } = stored;
  return { ...run, waitingFor: [], eventsUrl: eventsUrl(run.conversationId, cursor) };
}

export function eventsUrl(conversationId: string, after: number): string {
  return `/v1/conversations/${conversationId}/events?after=${after}`;
}
