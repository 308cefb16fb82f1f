/** The record as the gates see it: slots, intents, outcomes, transcript. */
import { PlatformError } from "@signalbox/contract";
import {
  isCurrent,
  type GateRecord,
  type ModelIntent,
  type ModelSettlement,
  type SlotView,
  type TranscriptRow,
} from "@signalbox/core";
import { writeAudit } from "./audit.ts";
import { writeModelSettled } from "./call-events.ts";
import type { CallFacts, MemoryDatabase } from "./database.ts";
import { isAlive } from "./process-record.ts";
import type { EntryRow, RunRow, SlotRow } from "./rows.ts";
import { denyToolCall, openToolCall, recordProposals, settleToolCall } from "./tool-ledger.ts";
import { chainDigest, entryKey, visibleEntries } from "./transcript.ts";

const PAGE_COUNT = 100;

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
    openToolCall: async (intent) =>
      db.transaction("open_tool_call", facts(intent.tokenHash, true), () => openToolCall(db, intent)),
    denyToolCall: async (denial) => db.transaction("deny_tool_call", {}, () => denyToolCall(db, denial)),
    settleToolCall: async (settlement) => db.transaction("settle_tool_call", {}, () => settleToolCall(db, settlement)),
    appendTranscript: async (tokenHash, rows) =>
      db.transaction("append_transcript", facts(tokenHash, false), () => appendTranscript(db, tokenHash, rows)),
    async *loadTranscript(tokenHash) {
      const entries = db.transaction("load_transcript", {}, () => loadTranscript(db, tokenHash));
      for (let from = 0; from < entries.length; from += PAGE_COUNT) yield entries.slice(from, from + PAGE_COUNT);
    },
  };
}

function slotOf(db: MemoryDatabase, tokenHash: string): SlotRow {
  const slot = db.slots.get(tokenHash);
  if (slot === undefined) throw new PlatformError("slot_unknown");
  return slot;
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

export interface BoundSlot {
  readonly slot: SlotRow;
  readonly run: RunRow;
  readonly generation: number;
}

/** The run a slot works for, if that is still so: the same comparison for an intent and for a transcript entry. */
export function boundSlot(db: MemoryDatabase, tokenHash: string): BoundSlot {
  const slot = slotOf(db, tokenHash);
  if (slot.runId === null || slot.generation === null) throw new PlatformError("slot_unknown");
  const run = db.runs.must(slot.runId);
  const { generation } = db.ownerships.must(slot.conversationId);
  if (!isCurrent(slot.generation, generation) || run.state !== "running") throw new PlatformError("stale_generation");
  return { slot, run, generation: slot.generation };
}

/** `boundSlot`, and nobody asked to stop, and the gate itself is alive. */
export function boundForIntent(db: MemoryDatabase, tokenHash: string, process: number): BoundSlot {
  const bound = db.sabotage === "intent_without_fence" ? looselyBound(db, tokenHash) : boundSlot(db, tokenHash);
  const { cancelAtMs } = db.ownerships.must(bound.slot.conversationId);
  if (cancelAtMs !== null && db.sabotage !== "intent_after_cancel") throw new PlatformError("run_cancelled");
  if (!isAlive(db, process)) throw new PlatformError("stale_generation");
  return bound;
}

/** Under sabotage a slot is believed whatever has become of its run. */
function looselyBound(db: MemoryDatabase, tokenHash: string): BoundSlot {
  const slot = slotOf(db, tokenHash);
  const run = db.runsOf(slot.conversationId).findLast((each) => each.state === "running");
  if (run === undefined) throw new PlatformError("stale_generation");
  return { slot, run, generation: slot.generation ?? 0 };
}

function openModelCall(db: MemoryDatabase, intent: ModelIntent): SlotView {
  const { slot, run, generation } = boundForIntent(db, intent.tokenHash, intent.process);
  const { limits } = db.snapshots.must(run.snapshotHash).snapshot;
  const made = db.modelCalls.where((call) => call.runId === run.id).length;
  if (db.nowMs() - (run.startedAtMs ?? db.nowMs()) > limits.wallClockMs || made >= limits.modelCallCount) {
    throw new PlatformError("run_timeout");
  }
  const { modelCallId: id, process, requestedModel } = intent;
  const { conversationId } = run;
  db.modelCalls.set(id, { id, runId: run.id, conversationId, generation, process, state: "executing", requestedModel });
  writeAudit(db, "model_called", { run, generation });
  return viewOf(db, slot);
}

function settleModelCall(db: MemoryDatabase, settlement: ModelSettlement): { readonly proposalsAccepted: boolean } {
  const call = db.modelCalls.must(settlement.modelCallId);
  if (call.state !== "executing" && db.sabotage !== "settle_twice") return { proposalsAccepted: false };
  const settled = db.modelCalls.update(call.id, { state: settlement.state });
  writeModelSettled(db, settled, settlement);
  const run = db.runs.must(call.runId);
  const owns = db.ownerships.must(call.conversationId).generation === call.generation && run.state === "running";
  return { proposalsAccepted: owns && recordProposals(db, call, settlement.proposals) };
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
      (each) => each.stream === row.stream && each.entryId === row.entryId && each.generation === generation,
    );
    if (known) continue;
    const entry: EntryRow = {
      ...row,
      conversationId,
      generation,
      position: (all.at(-1)?.position ?? 0) + 1,
      cut: false,
    };
    db.entries.set(entryKey(entry), entry);
  }
  const own = visibleEntries(db, conversationId, generation).findLast((entry) => entry.stream === "");
  return { leaf: own?.entryId ?? null };
}

function loadTranscript(db: MemoryDatabase, tokenHash: string): readonly TranscriptRow[] {
  const { run, generation } = boundSlot(db, tokenHash);
  const { leafDigest, leafPosition } = db.conversations.must(run.conversationId);
  const entries = visibleEntries(db, run.conversationId, generation);
  const finalized = entries.filter((entry) => entry.position <= leafPosition);
  if (leafDigest !== null && chainDigest(finalized) !== leafDigest) throw new PlatformError("transcript_corrupt");
  return entries.map(({ kind, entryId, stream, body }) => ({ kind, entryId, stream, body }));
}
