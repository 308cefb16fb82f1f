/** What the edge hands to admission: already parsed, not yet judged. */
import type { Actor, AgentId, MessageId, RunId, Snapshot, SnapshotTool, WhenBusy } from "@signalbox/contract";
import type { IdempotencyKey } from "../ports/admission-record.ts";

/** One revision of an agent, with its tools as they are pinned now. */
export interface AgentRevision {
  readonly agentId: AgentId;
  readonly name: string;
  readonly revision: number;
  /** `null` only for agents of older releases that named none. */
  readonly runtime: string | null;
  readonly instructions: string;
  /** `provider/model`. */
  readonly model: string;
  readonly maxOutputTokens: number;
  readonly tools: readonly SnapshotTool[];
  /** What a message does to a run that is active, where the message itself does not say. */
  readonly whenBusy: WhenBusy;
  readonly limits: Snapshot["limits"];
}

export interface MessageIntent {
  readonly tenantId: string;
  readonly conversationId: string;
  /** The message's id where the client minted one. */
  readonly messageId?: MessageId;
  readonly actor: Actor;
  readonly agent: AgentRevision;
  /** Text of the message; parts are already joined. */
  readonly text: string;
  readonly metadata: Readonly<Record<string, string>>;
  /**
   * Every other field of the message as the caller sent it (`model`, `whenBusy`, `effort`, `mode` …). Admission grants
   * or refuses each by its name; a field that is absent or `null` asks for nothing.
   */
  readonly asked: Readonly<Record<string, unknown>>;
  /**
   * The run whose message this is again, and whether its calls of unknown outcome were overlooked; left out for a message
   * of its own. The record audits it with the message.
   */
  readonly retry?: { readonly runId: RunId; readonly force: boolean };
  /** 32 hex digits of the caller's trace; `null` begins one. */
  readonly traceId: string | null;
  readonly idempotency: IdempotencyKey | null;
}

export interface CancelIntent {
  readonly tenantId: string;
  readonly runId: RunId;
  readonly actor: Actor;
}

/** Ids that are made before the record is asked, so that a retry inside one request names the same things. */
export interface NewIds {
  readonly messageId: MessageId;
  readonly runId: RunId;
  readonly traceId: string;
}
