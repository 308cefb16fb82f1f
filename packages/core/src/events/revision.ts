/** An item's revision is generation × 2²⁰ + step: whatever a later owner says replaces what an earlier one said. */
import { revisionOf, REVISIONS_PER_GENERATION } from "@signalbox/contract";

export function generationOf(revision: number): number {
  return Math.floor(revision / REVISIONS_PER_GENERATION);
}

export interface RevisionStamps {
  /** The next revision of an item that goes on. */
  open(itemId: string): number;
  /** The next revision of an item that ends; there is always room for it. */
  close(itemId: string): number;
}

/** Revisions for the items of one owner. Steps start at 1; an item with more parts than steps stays on the last but one. */
export function createRevisionStamps(generation: number): RevisionStamps {
  const steps = new Map<string, number>();
  const next = (itemId: string, last: number): number => {
    const step = Math.min((steps.get(itemId) ?? 0) + 1, last);
    steps.set(itemId, step);
    return revisionOf(generation, step);
  };
  return {
    open: (itemId) => next(itemId, REVISIONS_PER_GENERATION - 2),
    close: (itemId) => next(itemId, REVISIONS_PER_GENERATION - 1),
  };
}
