/** Who owns a conversation: claim, takeover, change of worker, release. Each gives a number that was never used. */
import { PlatformError } from "@signalbox/contract";
import { blocksRepetition, isOwned, nextGeneration, type Claim, type ClaimRequest, type Held } from "@signalbox/core";
import { writeAudit } from "./audit.ts";
import type { MemoryDatabase } from "./database.ts";
import { writeRunEvent } from "./event-log.ts";
import { isAlive } from "./alive.ts";
import { hasHistory, missedTurns } from "./past.ts";
import type { OwnershipRow, RunRow } from "./rows.ts";
import { moveRun, takenInBy, unbindSlots } from "./run-state.ts";
import { leafIsForeign } from "./transcript.ts";
import { visibleItems } from "./visible-items.ts";

export function claimRun(
  db: MemoryDatabase,
  run: RunRow,
  by: { readonly process: number; readonly cause: Claim["cause"] },
): Claim {
  const { cause, process } = by;
  const generation = nextGeneration(db.ownerships.must(run.conversationId).generation);
  const unowned = db.sabotage === "running_without_owner";
  db.ownerships.update(run.conversationId, { generation, owner: process, readyAtMs: null });
  const ownedBefore = run.startedAtMs !== null;
  const claimed = moveRun(db, run, {
    by: cause === "ready" ? "claim" : "take_over",
    set: {
      generation: unowned ? null : generation,
      owner: unowned ? null : process,
      attempt: cause === "ready" ? Math.max(run.attempt, 1) : run.attempt + 1,
      startedAtMs: run.startedAtMs ?? db.nowMs(),
    },
  });
  unbindSlots(db, run.conversationId);
  tell(db, claimed, { generation, cause });
  return claimOf(db, claimed, { generation, cause, ownedBefore });
}

function tell(
  db: MemoryDatabase,
  run: RunRow,
  about: { readonly generation: number; readonly cause: Claim["cause"] },
): void {
  const { generation, cause } = about;
  const { attempt, runtime } = run;
  if (cause === "ready") {
    writeRunEvent(db, run, { type: "run.started", generation, data: { runtime, attempt } });
  } else {
    writeRunEvent(db, run, { type: "run.recovered", generation, data: { cause, attempt } });
  }
  writeAudit(db, cause === "ready" ? "run_started" : "run_recovered", { run, generation });
}

function claimOf(db: MemoryDatabase, run: RunRow, about: Pick<Claim, "generation" | "cause" | "ownedBefore">): Claim {
  const conversation = db.conversations.must(run.conversationId);
  const message = db.messages.must(run.messageId);
  const before = db.messages
    .where(
      (each) =>
        each.conversationId === run.conversationId &&
        each.position < run.position &&
        each.role === "user" &&
        !each.struck,
    )
    .at(-1);
  const isForeign = leafIsForeign(db, run);
  return {
    ...about,
    tenantId: run.tenantId,
    conversationId: run.conversationId,
    runId: run.id,
    messageId: run.messageId,
    attempt: run.attempt,
    actor: run.actor,
    snapshot: db.snapshots.must(run.snapshotHash).snapshot,
    snapshotHash: run.snapshotHash,
    traceId: run.traceId,
    text: message.text,
    metadata: message.metadata,
    acceptedAtMs: run.acceptedAtMs,
    nowMs: db.nowMs(),
    startedAtMs: (run.startedAtMs ?? db.nowMs()) + run.suspendedMs,
    lastUserMessageAgeMs: before === undefined ? null : message.createdAtMs - before.createdAtMs,
    lastUserSnippet: before?.text ?? null,
    leaf: isForeign ? null : conversation.leaf,
    hasHistory: isForeign || hasHistory(db, run),
    missed: isForeign ? [] : missedTurns(db, run),
    cancelRequested: db.ownerships.must(run.conversationId).cancelAtMs !== null,
    visibleItems: visibleItems(db, run),
    takenIn: takenInBy(db, run).map(({ messageId }) => ({ messageId, text: db.messages.must(messageId).text })),
    outcomeUnknown: db.toolCalls.where((call) => call.runId === run.id).some((call) => blocksRepetition(call)),
    sealed: run.conclusion,
  };
}

/** Ready conversations first, then those whose owner is dead; only what the claimer has room for. */
export function claimWhatFits(db: MemoryDatabase, request: ClaimRequest): readonly Claim[] {
  if (!isAlive(db, request.process)) throw new PlatformError("stale_generation");
  const room = new Map(Object.entries(request.room));
  const ready = db.ownerships
    .where((ownership) => ownership.readyAtMs !== null)
    .toSorted((left, right) => (left.readyAtMs ?? 0) - (right.readyAtMs ?? 0));
  const orphaned = db.ownerships.where((ownership) => ownership.owner !== null && !isAlive(db, ownership.owner));
  const claims: Claim[] = [];
  for (const ownership of [...ready, ...orphaned]) {
    const free = room.get(ownership.runtime ?? "") ?? 0;
    const run = runToDrive(db, ownership);
    if (claims.length >= request.limit || free === 0 || run === null) continue;
    room.set(run.runtime, free - 1);
    const cause = ownership.readyAtMs !== null ? "ready" : "owner_lost";
    claims.push(claimRun(db, run, { process: request.process, cause }));
  }
  return claims;
}

/** What this process owns by the record and does not drive. */
export function claimAgain(db: MemoryDatabase, process: number, driving: readonly Held[]): readonly Claim[] {
  if (!isAlive(db, process)) throw new PlatformError("stale_generation");
  const driven = new Set(driving.map((held) => `${held.conversationId} ${held.generation}`));
  return db.ownerships
    .where((each) => each.owner === process && !driven.has(`${each.conversationId} ${each.generation}`))
    .flatMap((ownership) => runToDrive(db, ownership) ?? [])
    .map((run) => claimRun(db, run, { process, cause: "owner_lost" }));
}

function runToDrive(db: MemoryDatabase, ownership: OwnershipRow): RunRow | null {
  const state =
    ownership.readyAtMs !== null ? (run: RunRow) => run.state === "admitted" : (run: RunRow) => isOwned(run.state);
  return db.runsOf(ownership.conversationId).find(state) ?? null;
}

export function releaseRun(db: MemoryDatabase, run: RunRow): RunRow {
  const ownership = db.ownerships.must(run.conversationId);
  const released = moveRun(db, run, { by: "release", set: { generation: null, owner: null } });
  db.ownerships.update(run.conversationId, {
    generation: nextGeneration(ownership.generation),
    owner: null,
    readyAtMs: db.nowMs(),
    runtime: run.runtime,
  });
  unbindSlots(db, run.conversationId);
  return released;
}
