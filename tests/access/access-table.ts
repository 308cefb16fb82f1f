/** Every route of the API: the right it needs, how it is asked, and whose things it is about. */
import type { Right } from "../../packages/server/src/api/caller.ts";
import { newId } from "../setup/api-world.ts";

/** Things of one end user of the tenant `default`, and ids of things that do not exist. */
export interface Things {
  readonly agent: string;
  readonly conversation: string;
  readonly run: string;
  readonly hold: string;
  readonly approval: string;
  readonly stop: string;
  /** A call that waits for its client. */
  readonly waitingCall: string;
  readonly webhook: string;
  readonly delivery: string;
  readonly policy: string;
  /** A tool as it is pinned. */
  readonly tool: { readonly name: string; readonly digest: string };
  /** A call of a tool that was recorded. */
  readonly call: string;
}

export interface Access {
  /** `null`: anybody, without a key. */
  readonly right: Right | null;
  readonly path: (things: Things) => string;
  readonly body?: (things: Things) => unknown;
  /** What is owned by the end user, by the tenant, or by nobody: who else may not see it. */
  readonly owner: "user" | "tenant" | "nobody";
  /** Status for whoever may. */
  readonly status: number;
  /** Refused to every key that speaks for an end user. */
  readonly keyOnly?: true;
}

export const ACCESS: Readonly<Record<string, Access>> = {
  getHealth: { right: null, path: () => "/healthz", owner: "nobody", status: 200 },
  getReadiness: { right: null, path: () => "/readyz", owner: "nobody", status: 200 },
  explainError: { right: null, path: () => "/errors/not_found", owner: "nobody", status: 200 },
  getInfo: { right: "read", path: () => "/v1/info", owner: "nobody", status: 200 },
  listRuntimes: { right: "read", path: () => "/v1/runtimes", owner: "nobody", status: 200 },
  listAgents: { right: "read", path: () => "/v1/agents", owner: "nobody", status: 200 },
  createAgent: {
    right: "agents",
    path: () => "/v1/agents",
    body: () => ({ name: `agent-${newId("agent").slice(-12)}`, model: "sim/quote" }),
    owner: "nobody",
    status: 201,
  },
  getAgent: { right: "read", path: ({ agent }) => `/v1/agents/${agent}`, owner: "tenant", status: 200 },
  updateAgent: {
    right: "agents",
    path: ({ agent }) => `/v1/agents/${agent}`,
    body: () => ({ instructions: "Be brief." }),
    owner: "tenant",
    status: 200,
  },
  listAgentRevisions: {
    right: "read",
    path: ({ agent }) => `/v1/agents/${agent}/revisions`,
    owner: "tenant",
    status: 200,
  },
  createConversation: {
    right: "write",
    path: () => "/v1/conversations",
    body: ({ agent }) => ({ agent }),
    owner: "tenant",
    status: 201,
  },
  forkConversation: {
    right: "write",
    path: ({ conversation }) => `/v1/conversations/${conversation}/fork`,
    body: () => ({}),
    owner: "user",
    status: 201,
  },
  listConversations: { right: "read", path: () => "/v1/conversations", owner: "nobody", status: 200 },
  getConversation: {
    right: "read",
    path: ({ conversation }) => `/v1/conversations/${conversation}`,
    owner: "user",
    status: 200,
  },
  updateConversation: {
    right: "write",
    path: ({ conversation }) => `/v1/conversations/${conversation}`,
    body: () => ({ title: "another's title" }),
    owner: "user",
    status: 200,
  },
  deleteConversation: {
    right: "write",
    path: ({ conversation }) => `/v1/conversations/${conversation}`,
    owner: "user",
    status: 204,
  },
  listMessages: {
    right: "read",
    path: ({ conversation }) => `/v1/conversations/${conversation}/messages`,
    owner: "user",
    status: 200,
  },
  sendMessage: {
    right: "write",
    path: ({ conversation }) => `/v1/conversations/${conversation}/messages`,
    body: () => ({ content: "hello" }),
    owner: "user",
    status: 202,
  },
  streamEvents: {
    right: "read",
    path: ({ conversation }) => `/v1/conversations/${conversation}/events?follow=false`,
    owner: "user",
    status: 200,
  },
  listEvents: { right: "read", path: () => "/v1/events", owner: "nobody", status: 200 },
  listConversationRuns: {
    right: "read",
    path: ({ conversation }) => `/v1/conversations/${conversation}/runs`,
    owner: "user",
    status: 200,
  },
  listRuns: { right: "read", path: () => "/v1/runs", owner: "nobody", status: 200 },
  getRun: { right: "read", path: ({ run }) => `/v1/runs/${run}`, owner: "user", status: 200 },
  listApprovals: { right: "read", path: () => "/v1/approvals", owner: "nobody", status: 200 },
  getApproval: { right: "read", path: ({ approval }) => `/v1/approvals/${approval}`, owner: "user", status: 200 },
  decideApproval: {
    right: "write",
    path: ({ approval }) => `/v1/approvals/${approval}/decision`,
    body: () => ({ decision: "approve", digest: "d" }),
    owner: "user",
    status: 200,
  },
  getToolCall: { right: "read", path: ({ call }) => `/v1/tool-calls/${call}`, owner: "user", status: 200 },
  // Its outcome is known, so there is nothing to settle.
  reconcileToolCall: {
    right: "operate",
    path: ({ call }) => `/v1/tool-calls/${call}/reconcile`,
    body: () => ({ outcome: "succeeded" }),
    owner: "user",
    status: 409,
  },
  listHolds: { right: "read", path: () => "/v1/holds", owner: "nobody", status: 200 },
  getHold: { right: "read", path: ({ hold }) => `/v1/holds/${hold}`, owner: "user", status: 200 },
  decideHold: {
    right: "write",
    path: ({ hold }) => `/v1/holds/${hold}/decision`,
    body: () => ({ decision: "respond", response: "42" }),
    owner: "user",
    status: 200,
  },
  tellResult: {
    right: "write",
    path: ({ waitingCall }) => `/v1/tool-calls/${waitingCall}/result`,
    body: () => ({ content: "done" }),
    owner: "user",
    status: 200,
  },
  explainRun: { right: "operate", path: ({ run }) => `/v1/runs/${run}/explain`, owner: "user", status: 200 },
  pauseRun: { right: "operate", path: ({ run }) => `/v1/runs/${run}/pause`, owner: "user", status: 200 },
  resumeRun: { right: "operate", path: ({ run }) => `/v1/runs/${run}/resume`, owner: "user", status: 200 },
  // A run that is still to be answered is not answered again, and one that nobody drives is not released.
  retryRun: {
    right: "operate",
    path: ({ run }) => `/v1/runs/${run}/retry`,
    body: () => ({}),
    owner: "user",
    status: 409,
  },
  releaseRun: { right: "operate", path: ({ run }) => `/v1/runs/${run}/release`, owner: "user", status: 409 },
  failRun: {
    right: "operate",
    path: ({ run }) => `/v1/runs/${run}/fail`,
    body: () => ({}),
    owner: "user",
    status: 200,
  },
  listObligations: { right: "operate", path: () => "/v1/obligations", owner: "nobody", status: 200 },
  getMetrics: { right: "operate", path: () => "/metrics", owner: "nobody", status: 200 },
  listStops: { right: "operate", path: () => "/v1/stops?standing=false", owner: "nobody", status: 200 },
  createStop: {
    right: "operate",
    path: () => "/v1/stops",
    body: ({ conversation }) => ({ kind: "pause", scope: "conversation", id: conversation }),
    owner: "user",
    status: 201,
  },
  getStop: { right: "operate", path: ({ stop }) => `/v1/stops/${stop}`, owner: "user", status: 200 },
  liftStop: { right: "operate", path: ({ stop }) => `/v1/stops/${stop}/lift`, owner: "user", status: 200 },
  listWebhooks: { right: "operate", path: () => "/v1/webhooks", owner: "nobody", status: 200, keyOnly: true },
  createWebhook: {
    right: "operate",
    path: () => "/v1/webhooks",
    body: () => ({ url: "https://example.com/hooks", events: ["run.finished"] }),
    owner: "nobody",
    status: 201,
    keyOnly: true,
  },
  getWebhook: {
    right: "operate",
    path: ({ webhook }) => `/v1/webhooks/${webhook}`,
    owner: "tenant",
    status: 200,
    keyOnly: true,
  },
  updateWebhook: {
    right: "operate",
    path: ({ webhook }) => `/v1/webhooks/${webhook}`,
    body: () => ({ description: "another's" }),
    owner: "tenant",
    status: 200,
    keyOnly: true,
  },
  rotateWebhook: {
    right: "operate",
    path: ({ webhook }) => `/v1/webhooks/${webhook}/rotate`,
    body: () => ({}),
    owner: "tenant",
    status: 200,
    keyOnly: true,
  },
  testWebhook: {
    right: "operate",
    path: ({ webhook }) => `/v1/webhooks/${webhook}/test`,
    owner: "tenant",
    status: 202,
    keyOnly: true,
  },
  listDeliveries: {
    right: "operate",
    path: ({ webhook }) => `/v1/webhooks/${webhook}/deliveries`,
    owner: "tenant",
    status: 200,
    keyOnly: true,
  },
  getDelivery: {
    right: "operate",
    path: ({ webhook, delivery }) => `/v1/webhooks/${webhook}/deliveries/${delivery}`,
    owner: "tenant",
    status: 200,
    keyOnly: true,
  },
  redeliver: {
    right: "operate",
    path: ({ webhook, delivery }) => `/v1/webhooks/${webhook}/deliveries/${delivery}/redeliver`,
    owner: "tenant",
    status: 202,
    keyOnly: true,
  },
  deleteWebhook: {
    right: "operate",
    path: ({ webhook }) => `/v1/webhooks/${webhook}`,
    owner: "tenant",
    status: 204,
    keyOnly: true,
  },
  cancelRun: { right: "write", path: ({ run }) => `/v1/runs/${run}/cancel`, owner: "user", status: 200 },
  listTools: { right: "operate", path: () => "/v1/tools", owner: "nobody", status: 200, keyOnly: true },
  getTool: {
    right: "operate",
    path: ({ tool }) => `/v1/tools/${tool.name}`,
    owner: "tenant",
    status: 200,
    keyOnly: true,
  },
  approveTool: {
    right: "operate",
    path: ({ tool }) => `/v1/tools/${tool.name}/approve`,
    body: ({ tool }) => ({ digest: tool.digest }),
    owner: "tenant",
    status: 200,
    keyOnly: true,
  },
  classifyTool: {
    right: "operate",
    path: ({ tool }) => `/v1/tools/${tool.name}/classify`,
    body: () => ({ effect: "write" }),
    owner: "tenant",
    status: 200,
    keyOnly: true,
  },
  listMcpServers: { right: "operate", path: () => "/v1/mcp-servers", owner: "nobody", status: 200, keyOnly: true },
  createPolicy: {
    right: "operate",
    path: () => "/v1/policies",
    body: () => ({ document: { version: 1, rules: [{ id: "read", verdict: "allow", tools: { effects: ["read"] } }] } }),
    owner: "nobody",
    status: 201,
    keyOnly: true,
  },
  listPolicies: { right: "operate", path: () => "/v1/policies", owner: "nobody", status: 200, keyOnly: true },
  getPolicy: {
    right: "operate",
    path: ({ policy }) => `/v1/policies/${policy}`,
    owner: "tenant",
    status: 200,
    keyOnly: true,
  },
  activatePolicy: {
    right: "operate",
    path: ({ policy }) => `/v1/policies/${policy}/activate`,
    body: () => ({}),
    owner: "tenant",
    status: 200,
    keyOnly: true,
  },
  explainPolicy: {
    right: "operate",
    path: ({ policy }) => `/v1/policies/${policy}/explain`,
    body: ({ call }) => ({ toolCallId: call }),
    owner: "tenant",
    status: 200,
    keyOnly: true,
  },
  simulatePolicy: {
    right: "operate",
    path: ({ policy }) => `/v1/policies/${policy}/simulate`,
    body: () => ({ tool: "shop__refund", arguments: { amount: 5 } }),
    owner: "tenant",
    status: 200,
    keyOnly: true,
  },
  backTestPolicy: {
    right: "operate",
    path: ({ policy }) => `/v1/policies/${policy}/back-test`,
    body: () => ({}),
    owner: "tenant",
    status: 200,
    keyOnly: true,
  },
};
