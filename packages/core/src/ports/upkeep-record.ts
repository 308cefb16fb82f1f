/**
 * What the record forgets. Each method does one bounded batch in a transaction of its own and answers how much it did;
 * less than the limit means that nothing is left for now.
 */
export interface Batch {
  /** Only what is at least this old. */
  readonly ageMs: number;
  readonly limit: number;
}

export interface UpkeepRecord {
  /** True for one of all the processes that ask within `everyMs`. */
  begin(everyMs: number): Promise<boolean>;
  /** Makes the tombstones that had to wait for a call, and removes what was said in deleted conversations. */
  eraseDeleted(limit: number): Promise<number>;
  /** Empties the parts of items whose closing row has the whole, in runs that have ended. */
  emptyParts(limit: number): Promise<number>;
  /** Removes the events of runs that ended that long ago, oldest first, per conversation. */
  expireEvents(batch: Batch): Promise<number>;
  /** Removes transcript entries that nobody can continue from. */
  pruneTranscripts(limit: number): Promise<number>;
  pruneKeys(batch: Batch): Promise<number>;
  /** Slots that are bound to nothing. */
  pruneSlots(batch: Batch): Promise<number>;
  /** Deliveries to webhooks that ended that long ago. */
  pruneDeliveries(batch: Batch): Promise<number>;
}
