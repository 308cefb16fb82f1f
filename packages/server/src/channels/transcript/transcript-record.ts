/** Transcript entries in PostgreSQL, appended and read under the generation a slot is bound to. */
import { createHash } from "node:crypto";
import { PlatformError } from "@signalbox/contract";
import type { CallOutcome, GateRecord, TranscriptRow } from "@signalbox/core";
import { askRecord, readRows, type Queryable } from "../../store/record-call.ts";
import {
  APPEND_BEHIND,
  APPEND_COMPACTED,
  APPEND_TRANSCRIPT,
  CALL_OUTCOMES,
  LOAD_TRANSCRIPT,
  TRANSCRIPT_HEAD,
} from "../../store/statements/record-statements.ts";

export type TranscriptRecord = Pick<GateRecord, "appendTranscript" | "loadTranscript" | "callOutcomes">;

const PAGE_BYTES = 1024 * 1024;

/** `database` connects as `signalbox_run`. */
export function createTranscriptRecord(database: Queryable): TranscriptRecord {
  return {
    appendTranscript: (tokenHash, rows, { cutBehind, compaction } = {}) => {
      const columns = [
        rows.map((row) => row.kind),
        rows.map((row) => row.entryId),
        rows.map((row) => row.stream),
        rows.map((row) => row.body),
      ] as const;
      if (compaction !== undefined) {
        const { entryId, keptEntryIds } = compaction;
        const values = [tokenHash, cutBehind ?? null, entryId, keptEntryIds, ...columns];
        return askRecord<Appended>(database, APPEND_COMPACTED, values);
      }
      return cutBehind === undefined
        ? askRecord<Appended>(database, APPEND_TRANSCRIPT, [tokenHash, ...columns])
        : askRecord<Appended>(database, APPEND_BEHIND, [tokenHash, cutBehind, ...columns]);
    },
    loadTranscript: (tokenHash) => loadTranscript(database, tokenHash),
    async callOutcomes(tokenHash, toolUseIds) {
      const values = [tokenHash, toolUseIds];
      return (await askRecord<{ readonly outcomes: readonly CallOutcome[] }>(database, CALL_OUTCOMES, values)).outcomes;
    },
  };
}

interface Appended {
  readonly leaf: string | null;
}

interface Head {
  readonly conversationId: string;
  readonly generation: number;
  /** Nothing up to this position is read. */
  readonly after: number;
  readonly leafPosition: number;
  /** Hex; `null` when there is no finalized transcript. */
  readonly leafDigest: string | null;
}

interface StoredRow extends TranscriptRow {
  readonly position: number;
  readonly digest: Buffer;
}

async function* loadTranscript(database: Queryable, tokenHash: string): AsyncIterable<readonly TranscriptRow[]> {
  let head = await askRecord<Head>(database, TRANSCRIPT_HEAD, [tokenHash]);
  const { conversationId, generation } = head;
  let { after } = head;
  const chain = new Chain();
  for (;;) {
    const values = [conversationId, generation, after, PAGE_BYTES];
    const page = await readRows<StoredRow & Record<string, unknown>>(database, LOAD_TRANSCRIPT, values);
    // The owner may have changed while the page was read: what is handed out belongs to the one who asked.
    head = await askRecord<Head>(database, TRANSCRIPT_HEAD, [tokenHash]);
    for (const row of page) {
      chain.check(row, head);
    }
    const last = page.at(-1);
    if (last === undefined) {
      chain.end(head);
      return;
    }
    after = last.position;
    yield page.map(({ kind, entryId, stream, body }) => ({ kind, entryId, stream, body }));
  }
}

/** Recomputes what the record says of its own entries: each body's digest, and the chain up to the leaf. */
class Chain {
  #digest: Buffer = Buffer.alloc(32);

  check(row: StoredRow, head: Head): void {
    const digest = createHash("sha256").update(row.body).digest();
    if (!digest.equals(row.digest)) {
      throw new PlatformError("transcript_corrupt", `The transcript entry ${row.entryId} is not what was appended.`);
    }
    if (row.kind === "item" && row.stream === "" && row.position <= head.leafPosition) {
      this.#digest = createHash("sha256").update(this.#digest).update(row.entryId).update(digest).digest();
    }
  }

  end(head: Head): void {
    if (head.leafDigest !== null && this.#digest.toString("hex") !== head.leafDigest) {
      throw new PlatformError("transcript_corrupt");
    }
  }
}
