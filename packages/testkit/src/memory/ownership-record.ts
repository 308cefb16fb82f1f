import { PlatformError, type MessageId } from "@signalbox/contract";
import {
  blocksRepetition,
  type Claim,
  type Conclusion,
  type Finalization,
  type Held,
  type Ownership,
  type OwnershipRecord,
  type Seal,
  type SteeringOffer,
} from "@signalbox/core";
import { claimAgain, claimRun, claimWhatFits, releaseRun } from "./claiming.ts";
import type { CallFacts, MemoryDatabase } from "./database.ts";
import { placeOf, writeOwnerEvent } from "./event-log.ts";
import { fencedRun } from "./fence.ts";
import { historyBefore } from "./past.ts";
import type { RunRow } from "./rows.ts";
import { canStrike, endUnowned } from "./ending.ts";
import { endRun, moveRun, takenInBy, tellPlaces, unbindSlots } from "./run-state.ts";
import { suspendRun } from "./suspension.ts";
import { dropTail, takeOver } from "./take-over.ts";
import { sealedLeaf, settleTranscript } from "./transcript.ts";

/**
 * Claims and what their owners write, on the memory record. Ends with `stale_generation` for whoever owns no longer,
 * `slot_unknown`, `retries_exhausted` or `transcript_not_durable`.
 */
export function memoryOwnershipRecord(db: MemoryDatabase): OwnershipRecord {
  const owned = (claims: readonly Claim[]): readonly Ownership[] => claims.map((claim) => memoryOwnership(db, claim));
  return {
    claim: async (request) => owned(db.transaction("claim", {}, () => claimWhatFits(db, request))),
    adopt: (claim) => memoryOwnership(db, claim),
    cancelled: async (process) => db.transaction("cancelled", {}, () => cancelledOf(db, process)),
    steered: async (process) => db.transaction("steered", {}, () => steeredOf(db, process)),
    reclaim: async (process, driving) => owned(db.transaction("reclaim", {}, () => claimAgain(db, process, driving))),
  };
}

function cancelledOf(db: MemoryDatabase, process: number): readonly Held[] {
  return db.ownerships
    .where((ownership) => ownership.owner === process && ownership.cancelAtMs !== null)
    .map(({ conversationId, generation }) => ({ conversationId, generation }));
}

/** What stands before everything else that waits, and may be handed to the running engine. */
function steeredOf(db: MemoryDatabase, process: number): readonly SteeringOffer[] {
  return db.ownerships
    .where((ownership) => ownership.owner === process && ownership.cancelAtMs === null)
    .flatMap(({ conversationId, generation }) => {
      const runs = db.runsOf(conversationId);
      const target = runs.find((run) => run.state === "running");
      const waiting = runs
        .filter((run) => run.state === "queued" && !run.takenIn)
        .toSorted((left, right) => left.position - right.position);
      const end = waiting.findIndex((run) => run.steerInto !== target?.id);
      return waiting.slice(0, end < 0 ? waiting.length : end).map(({ messageId }) => {
        const { text } = db.messages.must(messageId);
        return { conversationId, generation, messageId, text };
      });
    });
}

function takeIn(db: MemoryDatabase, target: RunRow, messageId: MessageId): void {
  const run = db
    .runsOf(target.conversationId)
    .find((each) => each.messageId === messageId && each.steerInto === target.id && each.state === "queued");
  if (run === undefined || run.takenIn) return;
  db.runs.update(run.id, { takenIn: true });
  tellPlaces(db, target.conversationId);
}

/** A run that is to end needs nobody any more: it is not given back but ended. */
function release(db: MemoryDatabase, run: RunRow): void {
  const admitted = releaseRun(db, run);
  if (db.ownerships.must(run.conversationId).cancelAtMs !== null) endUnowned(db, admitted);
}

function memoryOwnership(db: MemoryDatabase, claim: Claim): Ownership {
  const facts: CallFacts = { presented: { conversationId: claim.conversationId, generation: claim.generation } };
  const running = (): RunRow => fencedRun(db, claim, ["running"]);
  return {
    claim,
    bindSlot: async (slot) =>
      db.transaction("bind_slot", facts, () => {
        const run = running();
        unbindSlots(db, run.conversationId);
        const { tenantId, conversationId, snapshotHash, id: runId } = run;
        const known = db.slots.get(slot.tokenHash);
        if (known !== undefined && known.conversationId !== conversationId) throw new PlatformError("slot_unknown");
        const { generation } = claim;
        db.slots.set(slot.tokenHash, { ...slot, tenantId, conversationId, snapshotHash, runId, generation });
      }),
    append: async (events, turnId) =>
      db.transaction("append", facts, () => {
        const run = fencedRun(db, claim, ["running", "finalizing"]);
        const place = { ...placeOf(run, claim.generation), turnId };
        for (const event of events) writeOwnerEvent(db, place, event);
      }),
    changeWorker: async ({ attemptLimit }) =>
      memoryOwnership(
        db,
        db.transaction("change_worker", facts, () => {
          const run = running();
          if (run.attempt >= attemptLimit) throw new PlatformError("retries_exhausted");
          const process = db.ownerships.must(run.conversationId).owner;
          if (process === null) throw new PlatformError("stale_generation");
          return claimRun(db, run, { process, cause: "worker_lost" });
        }),
      ),
    takeOver: async ({ adopt }) =>
      db.transaction("take_over", facts, () => takeOver(db, running(), { generation: claim.generation, adopt })),
    dropTail: async () =>
      db.transaction("drop_tail", facts, () => dropTail(db, running().conversationId, claim.generation)),
    seal: async (conclusion) => db.transaction("seal", facts, () => seal(db, claim, conclusion)),
    finish: async (finalization) => db.transaction("finish", facts, () => finish(db, claim, finalization)),
    suspend: async () => db.transaction("suspend", facts, () => suspendRun(db, claim)),
    takeIn: async (messageId) => db.transaction("take_in", facts, () => takeIn(db, running(), messageId)),
    release: async () => db.transaction("release", facts, () => release(db, running())),
    history: async (limit) => db.transaction("history", facts, () => historyBefore(db, running()).slice(-limit)),
  };
}

function seal(db: MemoryDatabase, claim: Claim, conclusion: Conclusion): Seal {
  const run = fencedRun(db, claim, ["running", "finalizing"]);
  const sealed = moveRun(db, run, { by: "seal", set: { conclusion: run.conclusion ?? conclusion } });
  return factsOf(db, sealed);
}

function factsOf(db: MemoryDatabase, run: RunRow): Seal {
  const tools = db.toolCalls.where((call) => call.runId === run.id);
  const openModels = db.modelCalls.where((call) => call.runId === run.id && call.state === "executing");
  return {
    ...sealedLeaf(db, run),
    openModelCallCount: openModels.length,
    openToolCallCount: tools.filter((call) => call.state === "executing").length,
    unknownToolCallCount: tools.filter((call) => call.state === "unknown" && blocksRepetition(call)).length,
    cancelCause: run.cancelCause,
    strikes: canStrike(db, run),
  };
}

function finish(
  db: MemoryDatabase,
  claim: Claim,
  finalization: Finalization,
): { readonly nextRunId: RunRow["id"] | null } {
  const run = fencedRun(db, claim, ["finalizing"]);
  const { answer, rung, servedModel, continuity, leaf, digest } = finalization;
  const sealed = sealedLeaf(db, run);
  if (continuity === "moved" && (sealed.leaf !== leaf || sealed.digest !== digest)) {
    throw new PlatformError("transcript_not_durable");
  }
  settleTranscript(db, run, finalization);
  if (answer !== null) {
    db.messages.set(answer.messageId, {
      id: answer.messageId,
      conversationId: run.conversationId,
      runId: run.id,
      role: "assistant",
      text: answer.text,
      partial: answer.partial,
      struck: false,
      position: Math.max(run.position, ...takenInBy(db, run).map(({ position }) => position)),
      metadata: {},
      createdAtMs: db.nowMs(),
    });
  }
  const closed = db.runs.update(run.id, { rung, servedModel });
  const { outcome, reason, error } = finalization;
  const next = endRun(db, closed, { outcome, reason, error, answerId: answer?.messageId ?? null });
  return { nextRunId: next?.id ?? null };
}
