/** Somebody who follows a conversation from a cursor: by the log when a bell or the clock says so, and by live deltas. */
import type { LiveDelta } from "@signalbox/contract";
import { createItemFold, type FoldedItem } from "@signalbox/core";
import type { MemoryDatabase } from "../memory/database.ts";

export class SimReader {
  readonly conversationId: string;
  readonly cursor: number;
  readonly sequences: number[] = [];
  readonly #db: MemoryDatabase;
  readonly #fold = createItemFold();
  #seen: number;

  constructor(db: MemoryDatabase, conversationId: string, cursor: number) {
    this.#db = db;
    this.conversationId = conversationId;
    this.cursor = cursor;
    this.#seen = cursor;
  }

  read(): void {
    for (const event of this.#db.eventsOf(this.conversationId)) {
      if (event.sequence === null || event.sequence <= this.#seen) continue;
      this.#seen = event.sequence;
      this.sequences.push(event.sequence);
      this.#fold.apply(event);
    }
  }

  hear(delta: LiveDelta): void {
    this.#fold.apply(delta);
  }

  items(): readonly FoldedItem[] {
    return this.#fold.items();
  }
}
