/** What the routes stand on; joined by wiring. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { AgentId, ConversationId, Info, PolicyId, RuntimeInfo, StopId } from "@signalbox/contract";
import type { AdmissionFlow, Digest, LiveSubscription, Log } from "@signalbox/core";
import type { ApiRecord } from "./api-record.ts";
import type { CommandRecord } from "./command.ts";
import type { AdmissionLimits } from "./limits.ts";
import type { OperatorView } from "./operator-record.ts";
import type { PolicyDesk } from "./policy-desk.ts";
import type { ToolDesk } from "./tool-desk.ts";

/** Answers a request by itself, headers and all. */
export interface RawService {
  handle(request: IncomingMessage, response: ServerResponse): void;
}

export interface ApiServices {
  /** Everything under `/mcp/`; `null` where this process has no gates. */
  readonly gateway?: RawService | null;
  readonly record: ApiRecord;
  /** The request side of the platform. */
  readonly admission: AdmissionFlow;
  /** What people decide about runs that exist. */
  readonly commands: CommandRecord;
  readonly operatorView: OperatorView;
  readonly policies: PolicyDesk;
  readonly tools: ToolDesk;
  readonly admissionLimits: AdmissionLimits;
  readonly subscribe: (conversationId: string) => LiveSubscription;
  readonly runtimes: () => readonly RuntimeInfo[];
  readonly providers: () => Info["providers"];
  /** Problems that keep this process from serving; empty when it is ready. */
  readonly unreadiness: () => Promise<readonly string[]>;
  /** A reader that takes nothing for this long is cut off with a reason. Default 60 000. */
  readonly slowReaderMs?: number;
  readonly eventRetentionDays: number;
  readonly digest: Digest;
  readonly newAgentId: () => AgentId;
  readonly newConversationId: () => ConversationId;
  readonly newStopId: () => StopId;
  readonly newPolicyId: () => PolicyId;
  readonly secret: string;
  readonly monotonicMs: () => number;
  readonly log: Log;
  readonly version: string;
  /** Aborts when the process begins to stop: open streams are closed with a reason. */
  readonly stopping: AbortSignal;
}
