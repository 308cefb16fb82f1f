/** Rows of the memory record: the tables of the database, with the columns that decisions look at. */
import type {
  Actor,
  AuditAction,
  CancelCause,
  EffectClass,
  EndReason,
  ErrorObject,
  HoldId,
  HoldKind,
  HoldState,
  MessageId,
  ModelCallId,
  ModelCallState,
  RunId,
  RunState,
  Rung,
  Snapshot,
  ToolCallId,
  ToolCallState,
} from "@signalbox/contract";
import type { Conclusion, CallVerdict } from "@signalbox/core";

export interface ProcessRow {
  readonly incarnation: number;
  readonly roles: readonly string[];
  readonly leaseUntilMs: number;
  readonly deadAtMs: number | null;
  /** Stands for the advisory lock on its connection. */
  readonly sessionHeld: boolean;
}

export interface ConversationRow {
  readonly id: string;
  readonly tenantId: string;
  readonly lastSequence: number;
  readonly lastPosition: number;
  readonly leaf: string | null;
  readonly leafPosition: number;
  readonly leafDigest: string | null;
  /** Whose transcript it is that the leaf ends. */
  readonly leafRuntime: string | null;
  /** Position of the last run whose turn the transcript has. */
  readonly leafTurn: number;
}

export interface OwnershipRow {
  readonly conversationId: string;
  readonly tenantId: string;
  readonly generation: number;
  readonly owner: number | null;
  readonly cancelAtMs: number | null;
  readonly readyAtMs: number | null;
  readonly runtime: string | null;
  /** How far the messages it was sent have used up its minute. */
  readonly pacedUntilMs: number;
}

export interface MessageRow {
  readonly id: MessageId;
  readonly conversationId: string;
  readonly runId: RunId;
  readonly role: "user" | "assistant";
  readonly text: string;
  readonly partial: boolean;
  /** Its turn was rolled back. */
  readonly struck: boolean;
  /** Position of the run; a question stands before its answer. */
  readonly position: number;
  readonly metadata: Readonly<Record<string, string>>;
  readonly createdAtMs: number;
}

export interface RunRow {
  readonly id: RunId;
  readonly tenantId: string;
  readonly conversationId: string;
  readonly messageId: MessageId;
  readonly snapshotHash: string;
  readonly runtime: string;
  readonly state: RunState;
  readonly reason: EndReason | null;
  readonly generation: number | null;
  readonly owner: number | null;
  readonly position: number;
  readonly attempt: number;
  readonly actor: Actor;
  readonly requested: Readonly<Record<string, unknown>>;
  readonly granted: Readonly<Record<string, unknown>>;
  readonly rung: Rung | null;
  readonly servedModel: string | null;
  readonly traceId: string;
  readonly error: ErrorObject | null;
  readonly conclusion: Conclusion | null;
  /** Why it is to be ended from outside, and whether its turn is to be struck. */
  readonly cancelCause: CancelCause | null;
  readonly cancelStrikes: boolean;
  /** The run that is offered its message, and whether that run's engine has taken it in. */
  readonly steerInto: RunId | null;
  readonly takenIn: boolean;
  readonly acceptedAtMs: number;
  readonly startedAtMs: number | null;
  readonly finishedAtMs: number | null;
  readonly suspendedAtMs: number | null;
  /** What it has spent waiting; its wall clock stood meanwhile. */
  readonly suspendedMs: number;
}

/** A time at which the store turned out to be another one than it was. */
export interface EraRow {
  readonly number: number;
  readonly openedAtMs: number;
}

export interface HoldRow {
  readonly id: HoldId;
  readonly runId: RunId;
  readonly conversationId: string;
  readonly kind: HoldKind;
  readonly subject: Readonly<Record<string, unknown>>;
  readonly digest: string | null;
  readonly state: HoldState;
  readonly decision: string | null;
  /** What the decision brought along. */
  readonly response: unknown;
  readonly openedAtMs: number;
  readonly expiresAtMs: number | null;
}

export interface IdempotencyRow {
  readonly bodyHash: string;
  readonly runId: RunId;
  readonly messageId: MessageId;
  readonly accepted: "started" | "queued" | "steered";
  readonly position: number;
  readonly cursor: number;
}

export interface SlotRow {
  readonly tokenHash: string;
  readonly tenantId: string;
  readonly conversationId: string;
  readonly snapshotHash: string;
  readonly workerId: string;
  readonly runId: RunId | null;
  readonly generation: number | null;
}

export interface ModelCallRow {
  readonly id: ModelCallId;
  readonly runId: RunId;
  readonly conversationId: string;
  readonly generation: number;
  readonly process: number;
  readonly state: ModelCallState;
  readonly requestedModel: string;
  /** Whether its proposals entered the ledger; answered again to a repeated settlement. */
  readonly proposalsAccepted: boolean;
}

export interface ToolCallRow {
  readonly id: ToolCallId;
  readonly modelCallId: ModelCallId;
  /** Its place in its message. */
  readonly ordinal: number;
  readonly runId: RunId;
  readonly conversationId: string;
  readonly toolUseId: string;
  readonly name: string;
  readonly server: string | null;
  readonly tool: string | null;
  readonly effect: EffectClass;
  readonly definitionHash: string | null;
  readonly argumentsJson: string;
  readonly argumentsDigest: string;
  readonly callDigest: string | null;
  /** By the policy of that version; `null` when it was not judged yet. */
  readonly verdict: CallVerdict | null;
  readonly policyVersion: string | null;
  readonly holdId: HoldId | null;
  /** As a person changed the arguments. */
  readonly editedArgumentsJson: string | null;
  readonly state: ToolCallState;
  readonly generation: number;
  readonly process: number | null;
  readonly resultJson: string | null;
  readonly resultSummary: string;
  readonly denial: string | null;
  /** A later call of the same run that stands for this one, so that each is matched once. */
  readonly repeatedBy: ToolCallId | null;
  readonly startedAtMs: number | null;
}

export interface EntryRow {
  readonly conversationId: string;
  readonly position: number;
  readonly generation: number;
  readonly stream: string;
  readonly entryId: string;
  readonly kind: "item" | "state";
  readonly body: Uint8Array;
  /** Set on an entry the engine began anew with: what it still reads of the turns before. */
  readonly keptEntryIds: readonly string[] | null;
  /** Gone: the database has no such row any more. */
  readonly cut: boolean;
}

export interface AuditRow {
  readonly action: AuditAction;
  readonly conversationId: string | null;
  readonly runId: RunId | null;
  readonly generation: number | null;
  readonly bytes: Uint8Array;
}

export interface SnapshotRow {
  readonly hash: string;
  readonly snapshot: Snapshot;
}
