/** Verdicts and approvals of the memory record: nothing of a message is made while one of its approvals is open. */
import { createHash } from "node:crypto";
import { makeId, PlatformError, uuidV7Bytes, type HoldId } from "@signalbox/contract";
import { isPendingCall, type ToBeJudged, type CallVerdict, type VerdictRecord } from "@signalbox/core";
import { denyPending, saidResult } from "./asked-calls.ts";
import { writeAudit } from "./audit.ts";
import type { MemoryDatabase } from "./database.ts";
import { closeHold, putHold, tellOpened } from "./holds.ts";
import type { RunRow, ToolCallRow } from "./rows.ts";
import { boundForIntent, type BoundSlot } from "./slots.ts";

/** The calls of a message, in message order. */
export function callsOfMessage(db: MemoryDatabase, call: ToolCallRow): readonly ToolCallRow[] {
  return db.toolCalls
    .where((each) => each.runId === call.runId && each.modelCallId === call.modelCallId)
    .toSorted((left, right) => left.ordinal - right.ordinal);
}

/** A verdict counts once for a version of the policy; a denial ends the call, and nobody is asked about it any more. */
export function putVerdict(
  db: MemoryDatabase,
  call: ToolCallRow,
  by: { readonly policyVersion: string; readonly verdict: CallVerdict & { readonly callDigest: string } },
): void {
  const { policyVersion, verdict } = by;
  if (!isPendingCall(call.state) || call.policyVersion === policyVersion) return;
  const callDigest = call.callDigest ?? verdict.callDigest;
  const judged = db.toolCalls.update(call.id, { verdict, policyVersion, callDigest });
  if (verdict.verdict !== "deny") return;
  const { code, reason } = verdict;
  denyPending(db, judged, { code, reason, resultJson: saidResult(reason, true) });
  withdrawQuestion(db, judged);
}

export function recordVerdicts(db: MemoryDatabase, record: VerdictRecord): void {
  const { run } = boundForIntent(db, record.tokenHash, record.process);
  for (const { toolCallId, ...verdict } of record.verdicts) {
    const call = db.toolCalls.get(toolCallId);
    if (call?.runId !== run.id || call.modelCallId !== record.modelCallId) continue;
    putVerdict(db, call, { policyVersion: record.policyVersion, verdict });
  }
}

export function withdrawCall(db: MemoryDatabase, call: ToolCallRow): void {
  if (isPendingCall(call.state)) db.toolCalls.update(call.id, { state: "withdrawn" });
  withdrawQuestion(db, call);
}

export function withdrawQuestion(db: MemoryDatabase, call: ToolCallRow): void {
  const hold = call.holdId === null ? undefined : db.holds.get(call.holdId);
  if (hold?.state === "open") closeHold(db, hold, { state: "withdrawn" });
}

/** What a turn that runs again proposes under a new id takes over what was asked or approved about the same call. */
export function inheritHold(db: MemoryDatabase, call: ToolCallRow): ToolCallRow {
  const before = db.toolCalls.where(
    (each) =>
      each.runId === call.runId &&
      each.generation < call.generation &&
      each.holdId !== null &&
      (each.state === "awaiting_approval" || each.state === "authorized") &&
      each.server === call.server &&
      each.tool === call.tool &&
      each.definitionHash === call.definitionHash &&
      each.argumentsDigest === call.argumentsDigest,
  )[0];
  if (before === undefined) return call;
  const { state, holdId, callDigest, editedArgumentsJson } = before;
  db.toolCalls.update(before.id, { state: "withdrawn", holdId: null });
  if (holdId !== null) {
    const { subject } = db.holds.must(holdId);
    const hold = db.holds.update(holdId, { subject: { ...subject, toolCallId: call.id, toolUseId: call.toolUseId } });
    if (hold.state === "open") tellOpened(db, hold, call.generation);
  }
  return db.toolCalls.update(call.id, { state, holdId, callDigest, editedArgumentsJson });
}

/**
 * Whether the call may be made now. `judge` when the message has calls without a verdict by that policy, `wait` while
 * somebody is asked about a call of it.
 */
export function readyCall(
  db: MemoryDatabase,
  { run, generation }: BoundSlot,
  asked: { readonly call: ToolCallRow; readonly policyVersion: string | null; readonly isDone: IsDone },
): ToolCallRow | ToBeJudged | Kept {
  const { call, policyVersion } = asked;
  const message = callsOfMessage(db, call);
  const isUnjudged = (each: ToolCallRow): boolean =>
    isPendingCall(each.state) && each.server !== null && each.policyVersion !== policyVersion;
  if (policyVersion !== null && message.some(isUnjudged)) return toBeJudged(call, message);
  openAsked(db, { run, message, isDone: asked.isDone });
  let now = db.toolCalls.must(call.id);
  if (now.holdId !== null && now.state !== "awaiting_approval") now = usedApproval(db, run, now);
  const open = callsOfMessage(db, call).find(({ holdId }) => holdId !== null && db.holds.get(holdId)?.state === "open");
  if (open === undefined || db.sabotage === "approval_not_awaited") return now;
  return { kind: "wait", holdId: open.holdId, conversationId: run.conversationId, generation };
}

/** Somebody is asked about a call of the message: a refusal, given once what was asked is kept. */
export interface Kept {
  readonly kind: "wait";
  readonly holdId: HoldId | null;
  readonly conversationId: string;
  readonly generation: number;
}

export function keptCall({ holdId, conversationId, generation }: Kept): PlatformError {
  return new PlatformError("run_suspended", undefined, { extra: { holdId, conversationId, generation } });
}

/** Whether the run has done already what the call would do. */
type IsDone = (call: ToolCallRow) => boolean;

function toBeJudged(call: ToolCallRow, message: readonly ToolCallRow[]): ToBeJudged {
  const calls = message.map((each) => ({
    ...each,
    toolCallId: each.id,
    argumentsJson: each.editedArgumentsJson ?? each.argumentsJson,
  }));
  return { kind: "judge", toolCallId: call.id, modelCallId: call.modelCallId, calls };
}

function openAsked(
  db: MemoryDatabase,
  batch: { readonly run: RunRow; readonly message: readonly ToolCallRow[]; readonly isDone: IsDone },
): void {
  for (const call of batch.message) {
    const { verdict } = call;
    const isAsked = verdict?.verdict === "ask" && call.holdId === null && isPendingCall(call.state);
    if (!isAsked || batch.isDone(call)) continue;
    const holdId = newHoldId(db, call);
    const { expiresInMs, approver } = verdict;
    const { id: toolCallId, callDigest: digest } = call;
    const subject = { toolCallId, argumentsJson: call.editedArgumentsJson ?? call.argumentsJson, approver };
    db.toolCalls.update(call.id, { state: "awaiting_approval", holdId });
    putHold(db, batch.run, { tokenHash: "", process: 0, holdId, kind: "approval", subject, digest, expiresInMs });
  }
}

/** The database makes this id from its own randomness; the simulation must tell the same history again. */
function newHoldId(db: MemoryDatabase, call: ToolCallRow): HoldId {
  const asked = db.holds.where(({ runId }) => runId === call.runId).length;
  const digest = createHash("sha256").update(`hold ${asked} of ${call.id}`).digest();
  return makeId("hold", uuidV7Bytes(db.nowMs(), digest.subarray(0, 10)));
}

/** The approval is looked at once more at the moment it is used: over, or about another call, it does not count. */
function usedApproval(db: MemoryDatabase, run: RunRow, call: ToolCallRow): ToolCallRow {
  const hold = call.holdId === null ? undefined : db.holds.get(call.holdId);
  if (hold === undefined || db.sabotage === "approval_not_verified") return call;
  if (hold.expiresAtMs !== null && hold.expiresAtMs <= db.nowMs()) {
    const reason = "The approval of this call has expired.";
    const resultJson = saidResult(`${reason} (approval_expired)`, true);
    return denyPending(db, call, { code: "approval_expired", reason, resultJson });
  }
  const isApproved = hold.state === "decided" && (hold.decision === "approve" || hold.decision === "edit");
  // Written by whoever decided, who had it checked.
  const approved = hold.decision === "edit" ? (hold.response as { readonly digest: string }).digest : hold.digest;
  if (isApproved && approved === call.callDigest) return call;
  writeAudit(db, "approval_void", { run, generation: run.generation });
  const asked = db.toolCalls.update(call.id, { state: "proposed", holdId: null });
  openAsked(db, { run, message: [asked], isDone: () => false });
  return db.toolCalls.must(call.id);
}
