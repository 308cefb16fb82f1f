/**
 * The ledger of calls that clients of the gateway make by themselves. They have a principal instead of a run: there is no
 * generation to present, and nobody who could wait while an operator has paused what they belong to.
 */
import type { Actor, EffectClass, ErrorCode, GatewayCallId } from "@signalbox/contract";
import type { Batch } from "./upkeep-record.ts";

interface GatewayCallFacts {
  readonly callId: GatewayCallId;
  readonly tenantId: string;
  readonly actor: Actor;
  /** The address the client used: `servers/docs` or `units/default`. */
  readonly endpoint: string;
  readonly server: string;
  readonly tool: string;
  readonly effect: EffectClass;
  /** Canonical JSON. */
  readonly argumentsJson: string;
  readonly argumentsDigest: string;
}

export interface GatewayIntent extends GatewayCallFacts {
  readonly process: number;
  readonly definitionHash: string | null;
  readonly traceId: string | null;
}

/** A verdict `deny`, in place of an intent. */
export interface GatewayDenial extends GatewayCallFacts {
  readonly code: ErrorCode;
  /** In words the client's model can read. */
  readonly reason: string;
}

export interface GatewaySettlement {
  readonly callId: GatewayCallId;
  readonly state: "succeeded" | "failed" | "unknown";
  readonly errorCode: ErrorCode | null;
  /** The MCP result as it was given to the client. */
  readonly resultJson: string;
  readonly resultSummary: string;
}

export interface GatewayRecord {
  /** Committed before anything leaves. Errors: `operator_stopped`, `database_unavailable`. */
  begin(intent: GatewayIntent): Promise<void>;
  refuse(denial: GatewayDenial): Promise<void>;
  /** Closes the call once; a second settlement changes nothing. */
  settle(settlement: GatewaySettlement): Promise<void>;
  /** An answer that came after the call was given up: kept beside what the client was told. */
  noteLate(callId: GatewayCallId, resultJson: string): Promise<void>;
  /** Closes open calls of dead gates and removes those that ended that long ago. Answers how many rows it changed. */
  tidy(batch: Batch): Promise<number>;
}
