/** What the record forgets, one statement per batch. */
import type { UpkeepRecord } from "@signalbox/core";
import { askRecord, type Queryable } from "../../store/record-call.ts";
import {
  BEGIN_UPKEEP,
  EMPTY_PARTS,
  ERASE_DELETED,
  EXPIRE_EVENTS,
  PRUNE_DELIVERIES,
  PRUNE_KEYS,
  PRUNE_SLOTS,
  PRUNE_TRANSCRIPTS,
} from "../../store/statements/record-statements.ts";

/** `database` must connect as the role `signalbox_run`. */
export function createUpkeepRecord(database: Queryable): UpkeepRecord {
  return {
    begin: (everyMs) => askRecord<boolean>(database, BEGIN_UPKEEP, [everyMs]),
    eraseDeleted: (limit) => askRecord<number>(database, ERASE_DELETED, [limit]),
    emptyParts: (limit) => askRecord<number>(database, EMPTY_PARTS, [limit]),
    pruneTranscripts: (limit) => askRecord<number>(database, PRUNE_TRANSCRIPTS, [limit]),
    expireEvents: ({ ageMs, limit }) => askRecord<number>(database, EXPIRE_EVENTS, [ageMs, limit]),
    pruneKeys: ({ ageMs, limit }) => askRecord<number>(database, PRUNE_KEYS, [ageMs, limit]),
    pruneDeliveries: ({ ageMs, limit }) => askRecord<number>(database, PRUNE_DELIVERIES, [ageMs, limit]),
    pruneSlots: ({ ageMs, limit }) => askRecord<number>(database, PRUNE_SLOTS, [ageMs, limit]),
  };
}
