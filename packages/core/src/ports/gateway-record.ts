/**
 * The ledger of calls that clients of the gateway make by themselves. They have a principal instead of a run: there is no
 * generation to present, and nobody who could wait while an operator has paused what they belong to.
 */
import type { Actor, EffectClass, ErrorCode, GatewayCallId, HoldId, ToolCallState } from "@signalbox/contract";
import type { CallVerdict } from "../gates/call-verdict.ts";
import type { PastCall } from "../gates/policy/facts.ts";
import type { Batch } from "./upkeep-record.ts";

interface GatewayCallFacts {
  readonly callId: GatewayCallId;
  readonly tenantId: string;
  readonly actor: Actor;
  /** Whose calls count together. */
  readonly principal: string;
  /** The address the client used: `servers/docs` or `units/default`. */
  readonly endpoint: string;
  readonly server: string;
  readonly tool: string;
  readonly effect: EffectClass;
  /** Canonical JSON. */
  readonly argumentsJson: string;
  readonly argumentsDigest: string;
  /** What it was judged by, and how; `null` for what no policy was asked about. */
  readonly policyVersion: string | null;
  readonly judgement: CallVerdict | null;
}

export interface GatewayIntent extends GatewayCallFacts {
  readonly process: number;
  readonly definitionHash: string | null;
  readonly traceId: string | null;
  /** Whether a rule counts the calls of a client; then they begin one after the other. */
  readonly isCounted: boolean;
  /** When the calls before it were looked at; `null` where the judgement does not rest on them. */
  readonly asOf: string | null;
}

/** A verdict `deny`, in place of an intent. */
export interface GatewayDenial extends GatewayCallFacts {
  readonly code: ErrorCode;
  /** In words the client's model can read. */
  readonly reason: string;
}

/** A verdict `ask`. */
export interface GatewayQuestion extends GatewayCallFacts {
  readonly process: number;
  readonly definitionHash: string | null;
  readonly traceId: string | null;
  readonly title: string;
  /** Over server, tool, definition and arguments. */
  readonly callDigest: string;
}

/** A call that a person is asked about, as it stands. What came of one that has ended counts as told. */
export interface AskedGatewayCall {
  readonly callId: GatewayCallId;
  readonly holdId: HoldId;
  readonly state: ToolCallState;
  /** What is carried out: as a person changed them, where one did. */
  readonly argumentsJson: string;
  readonly isEdited: boolean;
  readonly expiresAtMs: number;
  /** Of a call that has ended. */
  readonly errorCode: ErrorCode | null;
  readonly detail: string | null;
  readonly resultJson: string | null;
}

/** What names an asked call: the client that made it, and that very call. */
export interface AskedCallKey {
  readonly callId: string;
  readonly principal: string;
  readonly callDigest: string;
}

export interface GatewaySettlement {
  readonly callId: GatewayCallId;
  readonly state: "succeeded" | "failed" | "unknown";
  readonly errorCode: ErrorCode | null;
  /** The MCP result as it was given to the client. */
  readonly resultJson: string;
  readonly resultSummary: string;
}

/** Earlier calls of a client. */
export interface ClientHistory {
  readonly history: readonly Omit<PastCall, "name">[];
  /** Whether there were more than could be looked at. */
  readonly isCut: boolean;
  readonly nowMs: number;
  readonly asOf: string;
}

export interface GatewayRecord {
  /**
   * Committed before anything leaves. `judge`: the calls that the judgement rests on are not all of them any more. Errors:
   * `operator_stopped`, `database_unavailable`.
   */
  begin(intent: GatewayIntent): Promise<"begun" | "judge">;
  refuse(denial: GatewayDenial): Promise<void>;
  /**
   * Asks a person, or finds the same call of this client that somebody was asked about before. Errors as `begin`, and
   * `queue_full`.
   */
  ask(question: GatewayQuestion): Promise<AskedGatewayCall>;
  /** `null` when there is none. */
  asked(key: AskedCallKey): Promise<AskedGatewayCall | null>;
  /**
   * The intent of an approved call; its approval is looked at once more and used up. Answers the call as it stands where
   * it may not be made. `callDigest` names what is about to be carried out. Errors as `begin`.
   */
  beginAsked(intent: {
    readonly callId: GatewayCallId;
    readonly process: number;
    readonly callDigest: string;
    readonly policyVersion: string;
  }): Promise<"begun" | AskedGatewayCall>;
  /**
   * The intent of the next round of an approved call that asked its client for input: the approval covers it, once. False
   * when there is no such call, or that is over. Errors as `begin`.
   */
  continueAsked(intent: {
    readonly callId: GatewayCallId;
    readonly process: number;
    readonly continues: string;
    readonly principal: string;
    readonly callDigest: string;
  }): Promise<boolean>;
  /** What somebody was asked about is not to be made any more. */
  refuseAsked(denial: {
    readonly callId: GatewayCallId;
    readonly code: ErrorCode;
    readonly reason: string;
  }): Promise<void>;
  /** The client gives its call up. */
  withdrawAsked(callId: GatewayCallId, principal: string): Promise<void>;
  history(request: {
    readonly principal: string;
    /** The call that is judged, where it is known already. */
    readonly besides: GatewayCallId | null;
    readonly windowMs: number;
    readonly limit: number;
  }): Promise<ClientHistory>;
  /** Closes the call once; a second settlement changes nothing. */
  settle(settlement: GatewaySettlement): Promise<void>;
  /** An answer that came after the call was given up: kept beside what the client was told. */
  noteLate(callId: GatewayCallId, resultJson: string): Promise<void>;
  /** Closes open calls of dead gates and removes those that ended that long ago. Answers how many rows it changed. */
  tidy(batch: Batch): Promise<number>;
}
