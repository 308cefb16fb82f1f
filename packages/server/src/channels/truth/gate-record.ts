/** The record as the gates use it: each intent and each outcome is one call of one function. */
import { PlatformError, type Actor, type MessageId, type RunId, type ToolCallId } from "@signalbox/contract";
import {
  wireToolName,
  type GateRecord,
  type HoldRecord,
  type HoldRequest,
  type KeptCall,
  type LiveChannel,
  type ModelIntent,
  type ModelSettlement,
  type SlotView,
  type ToBeJudged,
  type ToolDenial,
  type ToolGrant,
  type ToolIntent,
  type ToolSettlement,
  type VerdictRecord,
} from "@signalbox/core";
import { askRecord, jsonText, readRows, type Queryable } from "../../store/record-call.ts";
import type { SnapshotCache } from "../../store/snapshot-cache.ts";
import {
  BEGUN_TOOL_CALLS,
  CANCELLED_RUNS,
  DENY_TOOL_CALL,
  OPEN_MODEL_CALL,
  OPEN_TOOL_CALL,
  RECORD_VERDICTS,
  SETTLE_MODEL_CALL,
  SETTLE_TOOL_CALL,
  SLOT_VIEW,
} from "../../store/statements/record-statements.ts";
import { HOLD_OVER, OPEN_HOLD } from "../../store/statements/operator-statements.ts";
import type { Authority } from "./authority.ts";
import { suspendHeld } from "./suspension.ts";

export interface GateRecordParts {
  /** Connects as `signalbox_run`. */
  readonly database: Queryable;
  readonly snapshots: SnapshotCache;
  readonly live: Pick<LiveChannel, "ring">;
  readonly authority: Authority;
  readonly transcript: Pick<GateRecord, "appendTranscript" | "loadTranscript" | "callOutcomes">;
}

export function createGateRecord(parts: GateRecordParts): GateRecord & HoldRecord {
  return {
    slot: async (tokenHash) => viewOf(parts, await askRecord<SlotFacts>(parts.database, SLOT_VIEW, [tokenHash])),
    openModelCall: (intent) => openModelCall(parts, intent),
    settleModelCall: (settlement) => settleModelCall(parts, settlement),
    openToolCall: (intent) => openToolCall(parts, intent),
    recordVerdicts: (record) => recordVerdicts(parts, record),
    denyToolCall: (denial) => denyToolCall(parts, denial),
    settleToolCall: (settlement) => settleToolCall(parts, settlement),
    begunToolCalls: async ({ runId, process, toolUseId, name, argumentsDigest }) => {
      const values = [runId, process, toolUseId, wireToolName(name), argumentsDigest];
      return (await readRows<{ readonly id: ToolCallId }>(parts.database, BEGUN_TOOL_CALLS, values)).map(
        ({ id }) => id,
      );
    },
    openHold: (request) => openHold(parts, request),
    isHoldOver: ({ holdId, generation }) => askRecord<boolean>(parts.database, HOLD_OVER, [holdId, generation]),
    suspend: (held) => suspendHeld(parts, held),
    cancelledRuns: async (runIds, forMs = 0) =>
      (await readRows<{ readonly id: RunId }>(parts.database, CANCELLED_RUNS, [runIds, forMs])).map(({ id }) => id),
    appendTranscript: (tokenHash, rows, manner) => parts.transcript.appendTranscript(tokenHash, rows, manner),
    loadTranscript: (tokenHash) => parts.transcript.loadTranscript(tokenHash),
    callOutcomes: (tokenHash, toolUseIds) => parts.transcript.callOutcomes(tokenHash, toolUseIds),
  };
}

interface SlotFacts {
  readonly tenantId: string;
  readonly conversationId: string;
  readonly snapshotHash: string;
  readonly actor: Actor;
  readonly run: {
    readonly runId: RunId;
    readonly messageId: MessageId;
    readonly generation: number;
    readonly traceId: string;
  } | null;
}

/** Where the statement wrote events, if it did. */
interface Written {
  readonly conversationId?: string;
  readonly sequence?: number;
}

async function viewOf(parts: GateRecordParts, facts: SlotFacts): Promise<SlotView> {
  const { tenantId, conversationId, snapshotHash, actor, run } = facts;
  const snapshot = await parts.snapshots.get(tenantId, snapshotHash);
  return { tenantId, conversationId, snapshot, snapshotHash, actor, run };
}

/** A gate that cannot be sure it is alive authorises nothing; it may be again in a moment. */
function demandAuthority({ authority }: GateRecordParts, process: number): void {
  if (!authority.holds(process)) {
    throw new PlatformError("database_unavailable", "This gate has lost its presence in the record.");
  }
}

function ring({ live }: GateRecordParts, { conversationId, sequence }: Written): void {
  if (conversationId !== undefined && sequence !== undefined) {
    live.ring(conversationId, sequence);
  }
}

async function openModelCall(parts: GateRecordParts, intent: ModelIntent): Promise<SlotView> {
  const { tokenHash, modelCallId, process, wire, requestedModel, requestBytes, rules } = intent;
  demandAuthority(parts, process);
  const values = [tokenHash, modelCallId, process, wire, requestedModel, requestBytes, rules];
  return viewOf(parts, await askRecord<SlotFacts>(parts.database, OPEN_MODEL_CALL, values));
}

async function settleModelCall(
  parts: GateRecordParts,
  settlement: ModelSettlement,
): Promise<{ readonly proposalsAccepted: boolean }> {
  const { usage } = settlement;
  const answer = await askRecord<Written & { readonly proposalsAccepted: boolean }>(parts.database, SETTLE_MODEL_CALL, [
    settlement.modelCallId,
    settlement.state,
    settlement.servedModel,
    usage.inputTokens,
    usage.outputTokens,
    usage.cacheReadTokens,
    usage.cacheWriteTokens,
    settlement.costMicros,
    settlement.priceVersion,
    settlement.stopReason,
    settlement.errorCode,
    jsonText(settlement.proposals),
  ]);
  ring(parts, answer);
  return { proposalsAccepted: answer.proposalsAccepted };
}

async function openToolCall(parts: GateRecordParts, intent: ToolIntent): Promise<ToolGrant | ToBeJudged> {
  const { tokenHash, process, toolUseId, name, argumentsDigest, policyVersion } = intent;
  demandAuthority(parts, process);
  const values = [tokenHash, process, toolUseId, wireToolName(name), argumentsDigest, policyVersion];
  const { conversationId, sequence, ...grant } = await askRecord<(ToolGrant | ToBeJudged) & Written>(
    parts.database,
    OPEN_TOOL_CALL,
    values,
  );
  ring(parts, {
    ...(conversationId === undefined ? {} : { conversationId }),
    ...(sequence === undefined ? {} : { sequence }),
  });
  return grant;
}

async function recordVerdicts(parts: GateRecordParts, record: VerdictRecord): Promise<void> {
  const { tokenHash, process, modelCallId, policyVersion, verdicts } = record;
  demandAuthority(parts, process);
  const values = [tokenHash, process, modelCallId, policyVersion, jsonText(verdicts)];
  ring(parts, await askRecord<Written>(parts.database, RECORD_VERDICTS, values));
}

async function openHold(parts: GateRecordParts, request: HoldRequest): Promise<KeptCall> {
  const { tokenHash, process, holdId, kind, subject, digest, expiresInMs } = request;
  demandAuthority(parts, process);
  const values = [tokenHash, process, holdId, kind, jsonText(subject), digest, expiresInMs];
  const answer = await askRecord<KeptCall & Written>(parts.database, OPEN_HOLD, values);
  ring(parts, answer);
  return { holdId: answer.holdId, conversationId: answer.conversationId, generation: answer.generation };
}

async function denyToolCall(parts: GateRecordParts, denial: ToolDenial): Promise<void> {
  const { tokenHash, process, toolUseId, name, argumentsDigest, code, reason } = denial;
  const values = [tokenHash, process, toolUseId, wireToolName(name), argumentsDigest, code, reason];
  ring(parts, await askRecord<Written>(parts.database, DENY_TOOL_CALL, values));
}

async function settleToolCall(parts: GateRecordParts, settlement: ToolSettlement): Promise<void> {
  const { toolCallId, state, resultJson, resultSummary, errorCode } = settlement;
  const values = [toolCallId, state, resultJson, resultSummary, errorCode];
  ring(parts, await askRecord<Written>(parts.database, SETTLE_TOOL_CALL, values));
}
