/** What a model call came to, and how the record learns of it: once, with the calls the message proposes. */
import { makeId, uuidV7Bytes, type ErrorCode, type ModelCallId, type Snapshot, type Usage } from "@signalbox/contract";
import {
  judgeToolCall,
  type Clock,
  type Digest,
  type GateRecord,
  type Log,
  type Proposal,
  type Randomness,
} from "@signalbox/core";
import { settleFirmly } from "../gates/settling.ts";
import type { ToolUse } from "./tool-blocks.ts";

export interface CallOutcome {
  readonly state: "succeeded" | "failed" | "estimated";
  readonly servedModel: string;
  readonly usage: Usage;
  readonly stopReason: string | null;
  readonly errorCode: ErrorCode | null;
  readonly calls: readonly ToolUse[];
}

export interface SettlementPorts {
  readonly record: Pick<GateRecord, "settleModelCall">;
  readonly clock: Clock;
  readonly digest: Digest;
  readonly randomness: Randomness;
  readonly log: Log;
}

export interface SettledCall {
  readonly modelCallId: ModelCallId;
  readonly snapshot: Snapshot;
  /** A simulated model costs nothing; what others cost is not known yet. */
  readonly simulated: boolean;
}

/** Resolves with whether the calls may be released. Rejects when the outcome cannot be recorded. */
export async function settleCall(ports: SettlementPorts, call: SettledCall, outcome: CallOutcome): Promise<boolean> {
  const { record, clock, log } = ports;
  const { calls, ...rest } = outcome;
  const settlement = {
    ...rest,
    modelCallId: call.modelCallId,
    costMicros: call.simulated ? 0 : null,
    priceVersion: call.simulated ? "sim" : null,
    proposals: calls.map((each) => proposalOf(ports, call.snapshot, each)),
  };
  const { proposalsAccepted } = await settleFirmly(() => record.settleModelCall(settlement), { clock, log });
  return calls.length === 0 || proposalsAccepted;
}

function proposalOf(ports: SettlementPorts, snapshot: Snapshot, call: ToolUse): Proposal {
  const { clock, randomness, digest } = ports;
  const verdict = judgeToolCall(snapshot, call.name);
  const tool = verdict.kind === "allow" ? verdict.value : null;
  return {
    toolCallId: makeId("toolCall", uuidV7Bytes(clock.nowMs(), randomness.bytes(10))),
    toolUseId: call.id,
    name: call.name,
    server: tool?.server ?? null,
    tool: tool?.tool ?? null,
    effect: tool?.effect ?? "irreversible",
    definitionHash: tool?.definitionHash ?? null,
    argumentsJson: call.argumentsJson,
    argumentsDigest: digest.sha256Hex(call.argumentsJson),
  };
}
