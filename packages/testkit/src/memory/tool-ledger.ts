/** The tool ledger of the memory record: proposals, intents, outcomes. */
import { PlatformError } from "@signalbox/contract";
import {
  isRepeatable,
  nextCallState,
  proposedAgain,
  wireToolName,
  type CallEvent,
  type Proposal,
  type ToolDenial,
  type ToolGrant,
  type ToolIntent,
  type ToolSettlement,
} from "@signalbox/core";
import { writeToolFinished, writeToolStarted } from "./call-events.ts";
import type { MemoryDatabase } from "./database.ts";
import { boundForIntent, type BoundSlot } from "./slots.ts";
import type { ModelCallRow, ToolCallRow } from "./rows.ts";

/** All proposals of a message, or none: one id with other arguments spoils the whole message. */
export function recordProposals(db: MemoryDatabase, call: ModelCallRow, proposals: readonly Proposal[]): boolean {
  const known = (proposal: Proposal): ToolCallRow | undefined =>
    db.toolCalls.where((each) => each.runId === call.runId && each.toolUseId === proposal.toolUseId)[0];
  if (proposals.some((each) => (known(each)?.argumentsDigest ?? each.argumentsDigest) !== each.argumentsDigest)) {
    return false;
  }
  for (const proposal of proposals) {
    const row = known(proposal);
    if (row === undefined) insertProposal(db, call, proposal);
    else if (proposedAgain(row) === "propose") {
      db.toolCalls.update(row.id, { state: "proposed", generation: call.generation, process: null, resultJson: null });
    }
  }
  return true;
}

function insertProposal(db: MemoryDatabase, call: ModelCallRow, proposal: Proposal): void {
  const { toolCallId: id, ...rest } = proposal;
  const denied = proposal.server === null;
  const row: ToolCallRow = {
    ...rest,
    id,
    runId: call.runId,
    conversationId: call.conversationId,
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
  if (denied) writeToolFinished(db, row);
}

export function openToolCall(db: MemoryDatabase, intent: ToolIntent): ToolGrant {
  const bound = boundForIntent(db, intent.tokenHash, intent.process);
  const call = begunAgain(db, bound, proposedCall(db, bound, intent));
  if (call.server === null || call.tool === null) throw new PlatformError("tool_not_allowed");
  if (call.state === "unknown") throw new PlatformError("tool_outcome_unknown");
  if (call.state === "succeeded" || call.state === "failed" || call.state === "denied") return replayOf(call);
  const earlier = equalCall(db, call);
  if (earlier !== null) return standIn(db, call, earlier);
  const executing = db.toolCalls.update(call.id, {
    state: after(call, "execute"),
    process: intent.process,
    generation: bound.generation,
    startedAtMs: db.nowMs(),
  });
  writeToolStarted(db, executing);
  const { id: toolCallId, runId, effect, argumentsJson } = executing;
  const { server, tool } = call;
  return {
    kind: "execute",
    toolCallId,
    runId,
    server,
    tool,
    effect,
    argumentsJson,
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
      each.argumentsDigest === call.argumentsDigest &&
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

export function denyToolCall(db: MemoryDatabase, denial: ToolDenial): void {
  const bound = boundForIntent(db, denial.tokenHash, denial.process);
  const call = db.toolCalls.where(
    (each) => each.runId === bound.run.id && each.toolUseId === denial.toolUseId && each.state === "proposed",
  )[0];
  if (call === undefined) return;
  const resultJson = JSON.stringify({ isError: true, content: [{ type: "text", text: denial.reason }] });
  writeToolFinished(
    db,
    db.toolCalls.update(call.id, { state: after(call, "deny"), denial: denial.reason, resultJson }),
  );
}

function after(call: ToolCallRow, event: CallEvent): ToolCallRow["state"] {
  const next = nextCallState(call.state, event);
  if (next === null) throw new PlatformError("tool_not_proposed");
  return next;
}
