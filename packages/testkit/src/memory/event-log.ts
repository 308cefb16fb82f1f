/** Writes events under the conversation's row: sequence 1, 2, 3 … in commit order. */
import { type EventData, type EventType, type OwnerEvent, type PlatformEvent, revisionOf } from "@signalbox/contract";
import type { MemoryDatabase } from "./database.ts";
import type { RunRow } from "./rows.ts";

export interface EventPlace {
  readonly conversationId: string;
  readonly runId: string;
  readonly traceId: string;
  readonly turnId: string | null;
  readonly generation: number;
}

export function placeOf(run: RunRow, generation: number): EventPlace {
  return { conversationId: run.conversationId, runId: run.id, traceId: run.traceId, turnId: null, generation };
}

export function writeEvent<T extends EventType>(
  db: MemoryDatabase,
  place: EventPlace,
  event: { readonly type: T; readonly itemId: string; readonly revision: number; readonly data: EventData<T> },
): void {
  const { lastSequence } = db.conversations.must(place.conversationId);
  const skipped = db.sabotage === "sequence_gap" && lastSequence % 7 === 3 ? 1 : 0;
  const sequence = lastSequence + 1 + skipped;
  db.conversations.update(place.conversationId, { lastSequence: sequence });
  const { type, itemId, revision, data } = event;
  const row = { type, itemId, revision, sequence, ...place, at: new Date(db.nowMs()).toISOString(), ...data };
  // The data belongs to the type by the signature above; the compiler cannot follow it through the spread.
  db.events.set(`${place.conversationId} ${sequence}`, row as unknown as PlatformEvent);
}

/** An owner's event. */
export function writeOwnerEvent(db: MemoryDatabase, place: EventPlace, event: OwnerEvent): void {
  // Data and type belong together in the union; the generic above takes one type at a time.
  writeEvent(db, place, event as { type: OwnerEvent["type"]; itemId: string; revision: number; data: never });
}

/** A fact about a run that the record tells itself. */
export function writeRunEvent<
  T extends "run.admitted" | "run.started" | "run.recovered" | "run.suspended" | "run.resumed",
>(
  db: MemoryDatabase,
  run: RunRow,
  fact: { readonly type: T; readonly generation: number; readonly data: EventData<T>; readonly step?: number },
): void {
  const revision = revisionOf(fact.generation, fact.step ?? 0);
  writeEvent(db, placeOf(run, fact.generation), { type: fact.type, itemId: run.id, revision, data: fact.data });
}
