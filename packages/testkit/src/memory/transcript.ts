/** The transcript of a conversation: one log, of which an owner sees what was finalized and what it added itself. */
import { createHash } from "node:crypto";
import type { Finalization, Seal } from "@signalbox/core";
import type { MemoryDatabase } from "./database.ts";
import type { EntryRow, RunRow } from "./rows.ts";
import { takenInBy } from "./run-state.ts";

/** Whether another runtime than the run's wrote what is finalized: nothing of it is read or continued. */
export function leafIsForeign(db: MemoryDatabase, run: Pick<RunRow, "conversationId" | "runtime">): boolean {
  const { leaf, leafRuntime } = db.conversations.must(run.conversationId);
  return leaf !== null && leafRuntime !== null && leafRuntime !== run.runtime;
}

export function visibleEntries(db: MemoryDatabase, conversationId: string, generation: number): readonly EntryRow[] {
  const { leafPosition } = db.conversations.must(conversationId);
  return db.entries.where(
    (entry) =>
      entry.conversationId === conversationId &&
      !entry.cut &&
      (entry.position <= leafPosition || entry.generation === generation),
  );
}

/** Chain over the items of the main stream, so that a change anywhere below the leaf is seen. */
export function chainDigest(entries: readonly EntryRow[]): string | null {
  const items = entries.filter((entry) => entry.kind === "item" && entry.stream === "");
  if (items.length === 0) return null;
  let digest = Buffer.alloc(0);
  for (const { entryId, body } of items) {
    digest = createHash("sha256").update(digest).update(entryId).update(body).digest();
  }
  return digest.toString("hex");
}

/** Where the transcript of a sealed run ends, and the digest over what will be visible once it is finished. */
export function sealedLeaf(db: MemoryDatabase, run: RunRow): Pick<Seal, "leaf" | "digest"> {
  // Entries carry the generation that ran the turn, whoever finishes it.
  const generation = run.conclusion?.generation ?? -1;
  const entries = visibleEntries(db, run.conversationId, generation);
  const own = entries.filter((entry) => entry.generation === generation);
  const last = own.findLast((entry) => entry.stream === "");
  const leaf = last?.entryId ?? db.conversations.must(run.conversationId).leaf;
  const startsOver = run.conclusion?.rung === "rebuilt" || leafIsForeign(db, run);
  const isKept = survivor(own, db.conversations.must(run.conversationId).leafPosition);
  const kept = startsOver && last !== undefined ? own : entries.filter(isKept);
  return { leaf, digest: leaf === null ? null : chainDigest(kept) };
}

/** Of what is read, what a turn with these entries leaves: all, unless the engine began anew in it. */
function survivor(own: readonly EntryRow[], leafPosition: number): (entry: EntryRow) => boolean {
  const kept = own.findLast((entry) => entry.position > leafPosition && entry.keptEntryIds !== null)?.keptEntryIds;
  return (entry) =>
    kept === undefined ||
    kept === null ||
    entry.position > leafPosition ||
    entry.stream !== "" ||
    entry.kind !== "item" ||
    kept.includes(entry.entryId);
}

export function settleTranscript(
  db: MemoryDatabase,
  run: RunRow,
  finalization: Pick<Finalization, "continuity" | "leaf" | "digest" | "rung">,
): void {
  const { conversationId } = run;
  const { continuity, leaf, digest, rung } = finalization;
  const conversation = db.conversations.must(conversationId);
  const generation = run.conclusion?.generation ?? -1;
  const entries = db.entries.where((entry) => entry.conversationId === conversationId && !entry.cut);
  const startsOver = rung === "rebuilt" || leafIsForeign(db, run);
  const survives = survivor(
    entries.filter((entry) => entry.generation === generation),
    conversation.leafPosition,
  );
  const keeps = (entry: EntryRow): boolean => {
    const below = entry.position <= conversation.leafPosition;
    if (continuity === "broken") return false;
    if (continuity === "kept") return below;
    return entry.generation === generation ? survives(entry) : below && !startsOver && survives(entry);
  };
  for (const entry of entries) if (!keeps(entry)) db.entries.update(entryKey(entry), { cut: true });
  if (continuity === "kept") return;
  const last = entries.findLast((entry) => entry.generation === generation);
  db.conversations.update(conversationId, {
    leaf: continuity === "moved" ? leaf : null,
    leafPosition: continuity === "moved" ? (last?.position ?? conversation.leafPosition) : 0,
    leafDigest: continuity === "moved" ? digest : null,
    leafRuntime: continuity === "moved" ? run.runtime : conversation.leafRuntime,
    leafTurn: Math.max(run.position, ...takenInBy(db, run).map(({ position }) => position)),
  });
}

export function entryKey(entry: Pick<EntryRow, "conversationId" | "position">): string {
  return `${entry.conversationId} ${entry.position}`;
}
