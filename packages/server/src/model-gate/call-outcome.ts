/** What a model call came to, and how the record learns of it: once, with the calls the message proposes. */
import {
  makeId,
  uuidV7Bytes,
  type ErrorCode,
  type ModelCallId,
  type Snapshot,
  type ToolCallId,
  type Usage,
} from "@signalbox/contract";
import {
  judgeToolCall,
  type Clock,
  type Digest,
  type GateRecord,
  type Log,
  type Proposal,
  type Randomness,
  type SlotView,
  type ToolJudge,
} from "@signalbox/core";
import { judgeMessage } from "../gates/judging.ts";
import type { Settling } from "../gates/settling.ts";
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
  readonly judge: ToolJudge;
  readonly randomness: Randomness;
  readonly log: Log;
  readonly settling: Settling;
}

export interface SettledCall {
  readonly modelCallId: ModelCallId;
  readonly view: SlotView;
  /** A simulated model costs nothing; what others cost is not known yet. */
  readonly simulated: boolean;
}

/** Resolves with whether the calls may be released. Rejects when the outcome cannot be recorded. */
export async function settleCall(ports: SettlementPorts, call: SettledCall, outcome: CallOutcome): Promise<boolean> {
  const { record, settling } = ports;
  const { calls, ...rest } = outcome;
  const settlement = {
    ...rest,
    modelCallId: call.modelCallId,
    costMicros: call.simulated ? 0 : null,
    priceVersion: call.simulated ? "sim" : null,
    proposals: await judgedProposals(ports, call.view, calls),
  };
  const { proposalsAccepted } = await settling.firmly(() => record.settleModelCall(settlement));
  return calls.length === 0 || proposalsAccepted;
}

/** The calls of a message as they are proposed, each with what the policy says of it as part of this message. */
async function judgedProposals(
  ports: SettlementPorts,
  view: SlotView,
  calls: readonly ToolUse[],
): Promise<readonly Proposal[]> {
  const proposals = calls.map((each) => proposalOf(ports, view.snapshot, each));
  if (proposals.every(({ server }) => server === null)) return proposals;
  const asked = proposals.map((each) => ({ ...each, state: each.server === null ? "denied" : "proposed" }) as const);
  const { policyVersion, judged } = await judgeMessage(ports, { view, calls: asked });
  const verdicts = new Map<ToolCallId, Proposal["judged"]>(
    judged.map(({ toolCallId, verdict }) => [toolCallId, { ...verdict, policyVersion }]),
  );
  return proposals.map((each) => {
    const verdict = verdicts.get(each.toolCallId) ?? null;
    return { ...each, callDigest: verdict?.callDigest ?? null, judged: verdict };
  });
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
    callDigest: null,
    judged: null,
  };
}
