/** The tool ledger of the memory record: proposals, intents, outcomes. */
import { PlatformError, type ToolCallId } from "@signalbox/contract";
import {
  isPendingCall,
  isRepeatable,
  nextCallState,
  proposedAgain,
  wireToolName,
  type BegunIntent,
  type CallEvent,
  type Proposal,
  type ToBeJudged,
  type ToolDenial,
  type ToolGrant,
  type ToolIntent,
  type ToolSettlement,
} from "@signalbox/core";
import { denyPending, saidResult } from "./asked-calls.ts";
import { writeToolFinished, writeToolStarted } from "./call-events.ts";
import type { MemoryDatabase } from "./database.ts";
import { boundForIntent, type BoundSlot } from "./slots.ts";
import type { ModelCallRow, ToolCallRow } from "./rows.ts";
import {
  callsOfMessage,
  inheritHold,
  putVerdict,
  readyCall,
  withdrawCall,
  withdrawQuestion,
  type Kept,
} from "./tool-approval.ts";

/** All proposals of a message, or none: one id with other arguments spoils the whole message. */
export function recordProposals(db: MemoryDatabase, call: ModelCallRow, proposals: readonly Proposal[]): boolean {
  const known = (proposal: Proposal): ToolCallRow | undefined =>
    db.toolCalls.where((each) => each.runId === call.runId && each.toolUseId === proposal.toolUseId)[0];
  if (proposals.some((each) => (known(each)?.argumentsDigest ?? each.argumentsDigest) !== each.argumentsDigest)) {
    return false;
  }
  for (const [index, proposal] of proposals.entries()) {
    const row = known(proposal);
    const place = { generation: call.generation, modelCallId: call.id, ordinal: index + 1 };
    if (row === undefined) insertProposal(db, call, { ...proposal, ordinal: index + 1 });
    else if (proposedAgain(row) === "propose") db.toolCalls.update(row.id, { ...place, ...startedOver(row) });
    else db.toolCalls.update(row.id, place);
  }
  // What an earlier generation proposed and did not begin, and this message does not propose again, is off.
  const before = db.toolCalls.where((each) => each.runId === call.runId && each.generation < call.generation);
  for (const each of before.filter(({ state }) => isPendingCall(state))) withdrawCall(db, each);
  return true;
}

/** Judged and asked for anew, unless it was not begun at all: an approval is good for one attempt. */
function startedOver({ state }: ToolCallRow): Partial<ToolCallRow> {
  if (state === "proposed") return {};
  const unjudged = { verdict: null, policyVersion: null, callDigest: null, holdId: null, editedArgumentsJson: null };
  return { ...unjudged, state: "proposed", process: null, resultJson: null };
}

function insertProposal(
  db: MemoryDatabase,
  call: ModelCallRow,
  proposal: Proposal & { readonly ordinal: number },
): void {
  const { toolCallId: id, judged, ...rest } = proposal;
  const denied = proposal.server === null;
  const row: ToolCallRow = {
    ...rest,
    id,
    modelCallId: call.id,
    runId: call.runId,
    conversationId: call.conversationId,
    verdict: null,
    policyVersion: null,
    holdId: null,
    editedArgumentsJson: null,
    state: denied ? "denied" : "proposed",
    generation: call.generation,
    process: null,
    resultJson: null,
    resultSummary: "",
    denial: denied ? "This agent has no tool of that name." : null,
    repeatedBy: null,
    startedAtMs: null,
  };
  db.toolCalls.set(id, row);
  if (denied) {
    writeToolFinished(db, row);
    return;
  }
  const asked = judged === null || judged.verdict === "ask" ? inheritHold(db, row) : row;
  if (judged === null) return;
  const { policyVersion, ...verdict } = judged;
  putVerdict(db, asked, { policyVersion, verdict });
}

export function openToolCall(db: MemoryDatabase, intent: ToolIntent): ToolGrant | ToBeJudged | Kept {
  const bound = boundForIntent(db, intent.tokenHash, intent.process);
  const { server, tool } = proposedCall(db, bound, intent);
  if (server === null || tool === null) throw new PlatformError("tool_not_allowed");
  const found = begunAgain(db, bound, broughtForward(db, bound, proposedCall(db, bound, intent)));
  if (found.state === "unknown" || found.state === "executing") throw new PlatformError("tool_outcome_unknown");
  if (!isPendingCall(found.state)) return replayOf(found);
  const isDone = (each: ToolCallRow): boolean => equalCall(db, each) !== null;
  const call = readyCall(db, bound, { call: found, policyVersion: intent.policyVersion, isDone });
  if ("kind" in call) return call;
  if (call.state === "denied") return replayOf(call);
  const earlier = equalCall(db, call);
  if (earlier !== null) return standIn(db, call, earlier);
  const executing = db.toolCalls.update(call.id, {
    state: after(call, "execute"),
    process: intent.process,
    generation: bound.generation,
    startedAtMs: db.nowMs(),
  });
  writeToolStarted(db, executing);
  const { id: toolCallId, runId, effect, argumentsJson, editedArgumentsJson, callDigest, verdict } = executing;
  return {
    kind: "execute",
    toolCallId,
    runId,
    server,
    tool,
    effect,
    argumentsJson: editedArgumentsJson ?? argumentsJson,
    isEdited: editedArgumentsJson !== null,
    callDigest,
    conditions: verdict?.conditions ?? null,
    idempotencyKey: `${runId} ${call.toolUseId}`,
  };
}

function proposedCall(
  db: MemoryDatabase,
  { run }: BoundSlot,
  intent: Pick<ToolIntent, "toolUseId" | "name" | "argumentsDigest">,
): ToolCallRow {
  const name = wireToolName(intent.name);
  const calls = db.toolCalls.where((each) => each.runId === run.id && each.argumentsDigest === intent.argumentsDigest);
  const call =
    intent.toolUseId === null
      ? calls.find((each) => each.name === name && each.state === "proposed")
      : calls.find((each) => each.toolUseId === intent.toolUseId);
  if (call === undefined || call.state === "withdrawn") throw new PlatformError("tool_not_proposed");
  return call;
}

/** What an earlier generation proposed and did not begin is this one's, with its whole message. */
function broughtForward(db: MemoryDatabase, { generation }: BoundSlot, call: ToolCallRow): ToolCallRow {
  if (!isPendingCall(call.state) || call.generation === generation) return call;
  for (const each of callsOfMessage(db, call)) {
    if (isPendingCall(each.state)) db.toolCalls.update(each.id, { generation });
  }
  return db.toolCalls.must(call.id);
}

/** What an earlier generation lost starts over under its own id when it changes nothing. */
function begunAgain(db: MemoryDatabase, { generation }: BoundSlot, call: ToolCallRow): ToolCallRow {
  const isLost = call.state === "unknown" && call.generation < generation;
  return isLost && proposedAgain(call) === "propose"
    ? db.toolCalls.update(call.id, { state: "proposed", generation, process: null, resultJson: null })
    : call;
}

/** A call with an effect that this run made already, before its turn ran again. */
function equalCall(db: MemoryDatabase, call: ToolCallRow): ToolCallRow | null {
  if (isRepeatable(call.effect) || db.sabotage === "effect_repeated") return null;
  const equal = db.toolCalls.where(
    (each) =>
      each.runId === call.runId &&
      each.generation < call.generation &&
      each.repeatedBy === null &&
      each.server === call.server &&
      each.tool === call.tool &&
      each.definitionHash === call.definitionHash &&
      (each.argumentsDigest === call.argumentsDigest ||
        (each.callDigest !== null && each.callDigest === call.callDigest)) &&
      (each.state === "succeeded" || each.state === "unknown"),
  );
  return equal[0] ?? null;
}

/** The recorded outcome answers for the new call; nothing is executed. */
function standIn(db: MemoryDatabase, call: ToolCallRow, earlier: ToolCallRow): ToolGrant {
  if (earlier.state === "unknown") throw new PlatformError("tool_outcome_unknown");
  db.toolCalls.update(earlier.id, { repeatedBy: call.id });
  const { resultJson, resultSummary } = earlier;
  const answered = db.toolCalls.update(call.id, { state: "succeeded", resultJson, resultSummary });
  writeToolFinished(db, answered);
  return replayOf(answered);
}

function replayOf(call: ToolCallRow): ToolGrant {
  return { kind: "replay", toolCallId: call.id, state: call.state, resultJson: call.resultJson ?? "null" };
}

export function settleToolCall(db: MemoryDatabase, settlement: ToolSettlement): void {
  const call = db.toolCalls.must(settlement.toolCallId);
  if (call.state !== "executing" && db.sabotage !== "settle_twice") return;
  const { state, resultJson, resultSummary } = settlement;
  writeToolFinished(db, db.toolCalls.update(call.id, { state, resultJson, resultSummary }));
}

export function begunToolCalls(db: MemoryDatabase, intent: BegunIntent): readonly ToolCallId[] {
  const { runId, process, toolUseId, argumentsDigest } = intent;
  const name = wireToolName(intent.name);
  return db.toolCalls
    .where(
      (each) =>
        each.runId === runId &&
        each.process === process &&
        each.state === "executing" &&
        each.name === name &&
        each.argumentsDigest === argumentsDigest &&
        (toolUseId === null || each.toolUseId === toolUseId),
    )
    .map(({ id }) => id);
}

export function denyToolCall(db: MemoryDatabase, denial: ToolDenial): void {
  const bound = boundForIntent(db, denial.tokenHash, denial.process);
  const call = db.toolCalls.where(
    (each) => each.runId === bound.run.id && each.toolUseId === denial.toolUseId && isPendingCall(each.state),
  )[0];
  if (call === undefined) return;
  const { code, reason } = denial;
  withdrawQuestion(db, denyPending(db, call, { code, reason, resultJson: saidResult(reason, true) }));
}

function after(call: ToolCallRow, event: CallEvent): ToolCallRow["state"] {
  const next = nextCallState(call.state, event);
  if (next === null) throw new PlatformError("tool_not_proposed");
  return next;
}
