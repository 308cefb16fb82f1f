/** The record as the gates see it: slots, intents, outcomes, transcript. */
import { PlatformError, type RunId } from "@signalbox/contract";
import {
  type CallOutcome,
  type GateRecord,
  type ModelIntent,
  type ModelSettlement,
  type SlotView,
  type Compaction,
  type TranscriptRow,
} from "@signalbox/core";
import { writeAudit } from "./audit.ts";
import { writeModelSettled } from "./call-events.ts";
import type { CallFacts, MemoryDatabase } from "./database.ts";
import type { EntryRow, SlotRow } from "./rows.ts";
import { boundForIntent, boundSlot, looselyBound, slotOf } from "./slots.ts";
import { keptCall, recordVerdicts } from "./tool-approval.ts";
import { begunToolCalls, denyToolCall, openToolCall, recordProposals, settleToolCall } from "./tool-ledger.ts";
import { cutBehind } from "./take-over.ts";
import { chainDigest, entryKey, leafIsForeign, visibleEntries } from "./transcript.ts";

const PAGE_COUNT = 100;

/**
 * What the gates need, on the memory record. Ends with `slot_unknown` or `stale_generation` for a slot that may do
 * nothing, `run_cancelled` or `run_timeout` for a run that may begin nothing more, `tool_not_proposed`,
 * `tool_not_allowed` or `tool_outcome_unknown` for a tool call, `transcript_corrupt` for a transcript that is not what
 * was sealed.
 */
export function memoryGateRecord(db: MemoryDatabase): GateRecord {
  const facts = (tokenHash: string, intent: boolean): CallFacts => {
    const slot = db.slots.get(tokenHash);
    const bound = slot !== undefined && slot.generation !== null;
    const presented = bound ? { conversationId: slot.conversationId, generation: slot.generation } : null;
    return { presented, intent };
  };
  return {
    slot: async (tokenHash) => db.transaction("slot", {}, () => viewOf(db, slotOf(db, tokenHash))),
    openModelCall: async (intent) =>
      db.transaction("open_model_call", facts(intent.tokenHash, true), () => openModelCall(db, intent)),
    settleModelCall: async (settlement) =>
      db.transaction("settle_model_call", {}, () => settleModelCall(db, settlement)),
    openToolCall: async (intent) => {
      const grant = db.transaction("open_tool_call", facts(intent.tokenHash, true), () => openToolCall(db, intent));
      // Not inside the transaction: that somebody was asked stays.
      if (grant.kind === "wait") throw keptCall(grant);
      return grant;
    },
    recordVerdicts: async (record) =>
      db.transaction("record_verdicts", facts(record.tokenHash, true), () => recordVerdicts(db, record)),
    denyToolCall: async (denial) => db.transaction("deny_tool_call", {}, () => denyToolCall(db, denial)),
    settleToolCall: async (settlement) => db.transaction("settle_tool_call", {}, () => settleToolCall(db, settlement)),
    begunToolCalls: async (intent) => db.transaction("begun_tool_calls", {}, () => begunToolCalls(db, intent)),
    cancelledRuns: async (runIds, forMs = 0) =>
      db.transaction("cancelled_runs", {}, () => runIds.filter((runId) => isCancelled(db, runId, forMs))),
    appendTranscript: async (tokenHash, rows, { cutBehind: behind, compaction } = {}) =>
      db.transaction("append_transcript", facts(tokenHash, false), () => {
        if (behind !== undefined) cutTail(db, tokenHash, behind);
        const appended = appendTranscript(db, tokenHash, rows);
        if (compaction !== undefined) beginAnew(db, tokenHash, compaction);
        return appended;
      }),
    callOutcomes: async (tokenHash, toolUseIds) =>
      db.transaction("call_outcomes", facts(tokenHash, false), () => callOutcomes(db, tokenHash, toolUseIds)),
    async *loadTranscript(tokenHash) {
      const entries = db.transaction("load_transcript", {}, () => loadTranscript(db, tokenHash));
      for (let from = 0; from < entries.length; from += PAGE_COUNT) yield entries.slice(from, from + PAGE_COUNT);
    },
  };
}

/** Whether the run's cancel was marked so long ago. One that has ended so is taken as marked when it ended. */
function isCancelled(db: MemoryDatabase, runId: RunId, forMs: number): boolean {
  const run = db.runs.get(runId);
  if (run === undefined || run.state === "queued") return false;
  const ended = run.state === "cancelled" ? run.finishedAtMs : null;
  const atMs = run.finishedAtMs === null ? db.ownerships.must(run.conversationId).cancelAtMs : ended;
  return atMs !== null && atMs <= db.nowMs() - forMs;
}

function viewOf(db: MemoryDatabase, slot: SlotRow): SlotView {
  const run = slot.runId === null ? undefined : db.runs.must(slot.runId);
  const newest = run ?? db.runsOf(slot.conversationId).at(-1);
  if (newest === undefined) throw new PlatformError("slot_unknown");
  const { tenantId, conversationId, snapshotHash, generation } = slot;
  const bound =
    run === undefined || generation === null
      ? null
      : { runId: run.id, messageId: run.messageId, generation, traceId: run.traceId };
  const { snapshot } = db.snapshots.must(snapshotHash);
  return { tenantId, conversationId, snapshot, snapshotHash, actor: newest.actor, run: bound };
}

function openModelCall(db: MemoryDatabase, intent: ModelIntent): SlotView {
  const { slot, run, generation } = boundForIntent(db, intent.tokenHash, intent.process);
  const { limits } = db.snapshots.must(run.snapshotHash).snapshot;
  const made = db.modelCalls.where((call) => call.runId === run.id).length;
  if (
    db.nowMs() - run.suspendedMs - (run.startedAtMs ?? db.nowMs()) > limits.wallClockMs ||
    made >= limits.modelCallCount
  ) {
    throw new PlatformError("run_timeout");
  }
  const { modelCallId: id, process, requestedModel } = intent;
  const { conversationId } = run;
  db.modelCalls.set(id, {
    id,
    runId: run.id,
    conversationId,
    generation,
    process,
    state: "executing",
    requestedModel,
    proposalsAccepted: false,
  });
  writeAudit(db, "model_called", { run, generation });
  return viewOf(db, slot);
}

function settleModelCall(db: MemoryDatabase, settlement: ModelSettlement): { readonly proposalsAccepted: boolean } {
  const call = db.modelCalls.get(settlement.modelCallId);
  if (call === undefined) return { proposalsAccepted: false };
  if (call.state !== "executing" && db.sabotage !== "settle_twice") {
    return { proposalsAccepted: call.proposalsAccepted };
  }
  const run = db.runs.must(call.runId);
  const owns = db.ownerships.must(call.conversationId).generation === call.generation && run.state === "running";
  const proposalsAccepted = owns && recordProposals(db, call, settlement.proposals);
  const settled = db.modelCalls.update(call.id, { state: settlement.state, proposalsAccepted });
  writeModelSettled(db, settled, settlement);
  return { proposalsAccepted };
}

function appendTranscript(
  db: MemoryDatabase,
  tokenHash: string,
  rows: readonly TranscriptRow[],
): { readonly leaf: string | null } {
  const bound = db.sabotage === "transcript_without_fence" ? looselyBound(db, tokenHash) : boundSlot(db, tokenHash);
  const { run, generation } = bound;
  const { conversationId } = run;
  for (const row of rows) {
    const all = db.entries.where((entry) => entry.conversationId === conversationId);
    const known = all.some(
      (each) =>
        !each.cut && each.stream === row.stream && each.entryId === row.entryId && each.generation === generation,
    );
    if (known) continue;
    const entry: EntryRow = {
      ...row,
      conversationId,
      generation,
      position: (all.at(-1)?.position ?? 0) + 1,
      keptEntryIds: null,
      cut: false,
    };
    db.entries.set(entryKey(entry), entry);
  }
  const own = visibleEntries(db, conversationId, generation).findLast((entry) => entry.stream === "");
  return { leaf: own?.entryId ?? null };
}

function beginAnew(db: MemoryDatabase, tokenHash: string, { entryId, keptEntryIds }: Compaction): void {
  const { run, generation } = boundSlot(db, tokenHash);
  const { leafPosition } = db.conversations.must(run.conversationId);
  const [entry] = visibleEntries(db, run.conversationId, generation).filter(
    (each) => each.position > leafPosition && each.stream === "" && each.entryId === entryId,
  );
  if (entry === undefined) throw new PlatformError("transcript_corrupt");
  db.entries.update(entryKey(entry), { keptEntryIds });
}

function cutTail(db: MemoryDatabase, tokenHash: string, behind: string): void {
  const { run, generation } = boundSlot(db, tokenHash);
  if (!cutBehind(db, { conversationId: run.conversationId, generation }, behind)) {
    throw new PlatformError("transcript_corrupt");
  }
}

function callOutcomes(db: MemoryDatabase, tokenHash: string, toolUseIds: readonly string[]): readonly CallOutcome[] {
  const { run } = boundSlot(db, tokenHash);
  return db.toolCalls
    .where((call) => call.runId === run.id && toolUseIds.includes(call.toolUseId))
    .map(({ toolUseId, state, resultJson }) => ({ toolUseId, state, resultJson }));
}

function loadTranscript(db: MemoryDatabase, tokenHash: string): readonly TranscriptRow[] {
  const { run, generation } = boundSlot(db, tokenHash);
  const { leafDigest, leafPosition } = db.conversations.must(run.conversationId);
  const isForeign = leafIsForeign(db, run);
  const after = isForeign ? leafPosition : 0;
  const entries = visibleEntries(db, run.conversationId, generation).filter((entry) => entry.position > after);
  const finalized = entries.filter((entry) => entry.position <= leafPosition);
  const expected = isForeign ? null : leafDigest;
  if (expected !== null && chainDigest(finalized) !== expected) throw new PlatformError("transcript_corrupt");
  return entries.map(({ kind, entryId, stream, body }) => ({ kind, entryId, stream, body }));
}
