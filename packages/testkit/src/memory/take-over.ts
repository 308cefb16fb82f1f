/** What earlier generations of a run left to the present one, and the tail of their transcript that it may adopt. */
import { blocksRepetition, type Inheritance } from "@signalbox/core";
import { writeAudit } from "./audit.ts";
import type { MemoryDatabase } from "./database.ts";
import type { EntryRow, RunRow } from "./rows.ts";
import { entryKey } from "./transcript.ts";
import { closedItems } from "./visible-items.ts";

export function takeOver(
  db: MemoryDatabase,
  run: RunRow,
  by: { readonly generation: number; readonly adopt: boolean },
): Inheritance {
  const ofRun = (call: { readonly runId: string }): boolean => call.runId === run.id;
  const tools = db.toolCalls.where(ofRun);
  const openCallCount =
    db.modelCalls.where(ofRun).filter((call) => call.state === "executing").length +
    tools.filter((call) => call.state === "executing").length;
  return {
    openCallCount,
    outcomeUnknown: tools.some((call) => blocksRepetition(call)),
    leaf: by.adopt && openCallCount === 0 ? adoptTranscript(db, run, by.generation) : null,
    closedItems: closedItems(db, run),
  };
}

function adoptTranscript(db: MemoryDatabase, run: RunRow, generation: number): string | null {
  const { conversationId } = run;
  const tail = behindLeaf(db, conversationId);
  const from = Math.max(...tail.map((entry) => (entry.generation < generation ? entry.generation : -1)), -1);
  if (from >= 0 && !tail.some((entry) => entry.generation === generation)) {
    const adopted = tail.filter((entry) => entry.generation === from);
    for (const entry of adopted) db.entries.update(entryKey(entry), { generation });
    writeAudit(db, "transcript_adopted", { run, generation });
  }
  const own = behindLeaf(db, conversationId).filter((entry) => entry.generation === generation);
  return own.findLast((entry) => entry.stream === "")?.entryId ?? null;
}

export function dropTail(db: MemoryDatabase, conversationId: string, generation: number): void {
  if (db.sabotage === "tail_not_dropped") return;
  for (const entry of behindLeaf(db, conversationId)) {
    if (entry.generation === generation) db.entries.update(entryKey(entry), { cut: true });
  }
}

/** Cuts what a generation has behind one of its entries, or behind the leaf. False when there is no such entry. */
export function cutBehind(
  db: MemoryDatabase,
  run: { readonly conversationId: string; readonly generation: number },
  entryId: string,
): boolean {
  const { leaf, leafPosition } = db.conversations.must(run.conversationId);
  const own = behindLeaf(db, run.conversationId).filter((entry) => entry.generation === run.generation);
  const found = own.findLast((entry) => entry.stream === "" && entry.entryId === entryId);
  if (found === undefined && leaf !== entryId) return false;
  const position = found?.position ?? leafPosition;
  for (const entry of own) if (entry.position > position) db.entries.update(entryKey(entry), { cut: true });
  return true;
}

function behindLeaf(db: MemoryDatabase, conversationId: string): readonly EntryRow[] {
  const { leafPosition } = db.conversations.must(conversationId);
  return db.entries.where(
    (entry) => entry.conversationId === conversationId && entry.position > leafPosition && !entry.cut,
  );
}
