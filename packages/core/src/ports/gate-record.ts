/**
 * The record as the gates see it. A slot token's hash names the run; each intent is one fenced statement that locks
 * the ownership row `FOR SHARE` and demands the bound generation, the run `running` and no cancel.
 * Common errors: `slot_unknown` (no such slot, or not bound), `stale_generation`, `run_cancelled`, `run_stopped`, and
 * `run_suspended` with the `KeptCall` that an operator's pause made of the intent.
 */
import type {
  Actor,
  EffectClass,
  ErrorCode,
  HoldId,
  HoldKind,
  MessageId,
  RunId,
  Snapshot,
  ToolCallId,
  ToolCallState,
  Usage,
  ModelCallId,
} from "@signalbox/contract";
import type { BatchCall, CallVerdict } from "../gates/call-verdict.ts";
import type { Held, Suspension } from "./ownership-record.ts";

/** What a slot is bound to. `run` is `null` between steps. */
export interface SlotView {
  readonly tenantId: string;
  readonly conversationId: string;
  readonly snapshot: Snapshot;
  readonly snapshotHash: string;
  readonly actor: Actor;
  readonly run: {
    readonly runId: RunId;
    readonly messageId: MessageId;
    readonly generation: number;
    readonly traceId: string;
  } | null;
}

export interface ModelIntent {
  readonly tokenHash: string;
  readonly modelCallId: ModelCallId;
  readonly process: number;
  readonly wire: "anthropic";
  readonly requestedModel: string;
  readonly requestBytes: number;
  /** Named rules that changed the request before it left, recorded with the intent. */
  readonly rules: readonly string[];
}

/** A tool call as the model proposed it, in message order. */
export interface Proposal {
  readonly toolCallId: ToolCallId;
  readonly toolUseId: string;
  /** Name on the wire without the engine's prefix. */
  readonly name: string;
  /** `null` when the snapshot has no such tool; the row is then `denied`. */
  readonly server: string | null;
  readonly tool: string | null;
  readonly effect: EffectClass;
  readonly definitionHash: string | null;
  /** Canonical JSON of the arguments. */
  readonly argumentsJson: string;
  readonly argumentsDigest: string;
  /** Over server, tool, definition and arguments: what an approval of this call is bound to. `null` without a tool. */
  readonly callDigest: string | null;
  /** What the policy says of it as part of its message; `null` when the tool gate is to judge it. */
  readonly judged: (RecordedVerdict & { readonly policyVersion: string }) | null;
}

/** A verdict as the ledger keeps it. */
export interface RecordedVerdict extends CallVerdict {
  readonly callDigest: string;
}

export interface ModelSettlement {
  readonly modelCallId: ModelCallId;
  readonly state: "succeeded" | "failed" | "estimated";
  readonly servedModel: string;
  readonly usage: Usage;
  readonly costMicros: number | null;
  readonly priceVersion: string | null;
  readonly stopReason: string | null;
  readonly errorCode: string | null;
  readonly proposals: readonly Proposal[];
}

export interface ToolIntent {
  readonly tokenHash: string;
  readonly process: number;
  /** As the engine sent it; `null` when it sends none (then matched by tool and argument digest, in order). */
  readonly toolUseId: string | null;
  readonly name: string;
  readonly argumentsDigest: string;
  /**
   * The policy this gate judges by: calls that were judged by another one, or not at all, are to be judged first. `null`
   * for one that judges nothing and goes by the verdicts there are.
   */
  readonly policyVersion: string | null;
}

/** The message whose calls are to be judged, and its calls in message order. */
export interface ToBeJudged {
  readonly kind: "judge";
  /** The call that was to begin. */
  readonly toolCallId: ToolCallId;
  readonly modelCallId: ModelCallId;
  readonly calls: readonly BatchCall[];
}

/** Verdicts about calls of one message. Each counts once for a version of the policy: the first. */
export interface VerdictRecord {
  readonly tokenHash: string;
  readonly process: number;
  readonly modelCallId: ModelCallId;
  readonly policyVersion: string;
  readonly verdicts: readonly (RecordedVerdict & { readonly toolCallId: ToolCallId })[];
}

export type ToolGrant =
  | {
      readonly kind: "execute";
      readonly toolCallId: ToolCallId;
      readonly runId: RunId;
      readonly server: string;
      readonly tool: string;
      readonly effect: EffectClass;
      /** What is carried out: as it was proposed, or as a person changed it. */
      readonly argumentsJson: string;
      readonly isEdited: boolean;
      /** What was approved, or judged; `null` for a call that a gate of an earlier release proposed. */
      readonly callDigest: string | null;
      /** What the verdict demands of the call and its result. */
      readonly conditions: readonly unknown[] | null;
      /** The same on every retry of this call. */
      readonly idempotencyKey: string;
    }
  /** The call already has an outcome: it is answered from the ledger and not executed. */
  | {
      readonly kind: "replay";
      readonly toolCallId: ToolCallId;
      readonly state: ToolCallState;
      readonly resultJson: string;
    };

/** A verdict `deny` that the tool gate reached before the call's intent, such as a definition that drifted. */
export interface ToolDenial {
  readonly tokenHash: string;
  readonly process: number;
  /** Named like the intent it stands for. */
  readonly toolUseId: string | null;
  readonly name: string;
  readonly argumentsDigest: string;
  readonly code: ErrorCode;
  /** The reason in words the model can read. */
  readonly reason: string;
}

/** An intent as its gate knows it when no reply came. */
export interface BegunIntent {
  readonly runId: RunId;
  readonly process: number;
  readonly toolUseId: string | null;
  readonly name: string;
  readonly argumentsDigest: string;
}

export interface ToolSettlement {
  readonly toolCallId: ToolCallId;
  readonly state: "succeeded" | "failed" | "unknown";
  /** The MCP result as it was given to the engine. */
  readonly resultJson: string;
  readonly resultSummary: string;
  readonly errorCode: string | null;
}

export interface TranscriptRow {
  readonly kind: "item" | "state";
  readonly entryId: string;
  readonly stream: string;
  readonly body: Uint8Array;
}

/** How rows are appended, when not just behind the ones there are. */
export interface AppendManner {
  /** Rows of this generation behind this one of the main stream are cut first. */
  readonly cutBehind?: string;
  readonly compaction?: Compaction;
}

/**
 * With one of the rows the engine begins anew. Once the turn is true, of the turns before it only these rows of the main
 * stream are kept.
 */
export interface Compaction {
  readonly entryId: string;
  readonly keptEntryIds: readonly string[];
}

/** What a call that is kept at a gate waits for. */
export interface HoldRequest {
  readonly tokenHash: string;
  readonly process: number;
  /** Made before the record is asked: repeated, it names the same hold. */
  readonly holdId: HoldId;
  readonly kind: HoldKind;
  readonly subject: Readonly<Record<string, unknown>>;
  readonly digest: string | null;
  /** From now; `null` never expires. */
  readonly expiresInMs: number | null;
}

/** A call that is kept at a gate: the hold it waits for, and the ownership it was made under. */
export interface KeptCall extends Held {
  readonly holdId: HoldId;
}

export interface GateRecord {
  /** Errors: `slot_unknown` when no such slot exists. A slot between steps has `run: null`. */
  slot(tokenHash: string): Promise<SlotView>;
  /** Intent of a model call. Also refuses when the run has used up its model calls (`run_timeout` for its wall clock). */
  openModelCall(intent: ModelIntent): Promise<SlotView>;
  /**
   * Closes the call exactly once, whoever owns the conversation by now; records its proposals when the opener is still
   * the owner, and `usage.recorded`. A second settlement changes nothing and answers as the first did; one of a
   * call that was never opened (its intent's reply was lost) changes nothing either.
   */
  settleModelCall(settlement: ModelSettlement): Promise<{ readonly proposalsAccepted: boolean }>;
  /**
   * Opens the approvals that the call's message asks for, and refuses with `run_suspended` and the `KeptCall` while one
   * is open; verifies the call's own approval once more. Errors: also `tool_not_proposed`, `tool_outcome_unknown`.
   */
  openToolCall(intent: ToolIntent): Promise<ToolGrant | ToBeJudged>;
  /** Under the fence of an intent. A call that is denied by it ends with the reason as its result. */
  recordVerdicts(record: VerdictRecord): Promise<void>;
  /**
   * Records a denial instead of an intent: the proposed call becomes `denied` with its reason, `tool_denied` is audited
   * and `tool.finished` written. A call that was not proposed, or already has an outcome, is only audited.
   */
  denyToolCall(denial: ToolDenial): Promise<void>;
  settleToolCall(settlement: ToolSettlement): Promise<void>;
  /** Calls that this process has begun for such an intent and not closed: the reply to the intent may have been lost. */
  begunToolCalls(intent: BegunIntent): Promise<readonly ToolCallId[]>;
  /**
   * Those of these runs that somebody has cancelled, whether or not they have ended by now; with `forMs`, only those
   * whose cancel is older than that.
   */
  cancelledRuns(runIds: readonly RunId[], forMs?: number): Promise<readonly RunId[]>;
  /**
   * Appends under the bound generation. Returns the last entry id of the main stream. `transcript_corrupt` when there is
   * no entry to cut behind, or none of this turn that the engine is said to begin anew with.
   */
  appendTranscript(
    tokenHash: string,
    rows: readonly TranscriptRow[],
    manner?: AppendManner,
  ): Promise<{ readonly leaf: string | null }>;
  /** Rows the current owner may continue from, in order, in pages. Errors: `transcript_corrupt`. */
  loadTranscript(tokenHash: string): AsyncIterable<readonly TranscriptRow[]>;
  /** What became of calls of the bound run, by their tool-use ids; ids the ledger does not have are left out. */
  callOutcomes(tokenHash: string, toolUseIds: readonly string[]): Promise<readonly CallOutcome[]>;
}

export interface CallOutcome {
  readonly toolUseId: string;
  readonly state: ToolCallState;
  /** The MCP result; `null` when the call has none. */
  readonly resultJson: string | null;
}

/** Holds as the gates see them. */
export interface HoldRecord {
  /**
   * Opens a hold for a call under the fence of an intent. A pause needs no such call: its hold is opened by the intent
   * that meets it. This is for whoever asks a person before a call, an approval of the tool gate being the first.
   */
  openHold(request: HoldRequest): Promise<KeptCall>;
  /** Whether waiting is over: the hold is not open any more, the owner is another one, or the run is to end. */
  isHoldOver(call: KeptCall): Promise<boolean>;
  /** The end of patience, as `Ownership.suspend`. Errors: `stale_generation`. */
  suspend(held: Held): Promise<Suspension>;
}
