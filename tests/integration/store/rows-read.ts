/** What the statements of a database of its own have read so far, once every backend has told it. */
import type { RecordProcess, RecordWorld } from "./record-world.ts";

export interface Reads {
  /** Rows of our tables. */
  readonly rowCount: number;
  /** Buffers of the transcript and its indexes. */
  readonly bufferCount: number;
}

/** Each backend tells what it read when it has nothing to do, or ends; the sum is taken when all have been asked. */
export async function settledReads(own: RecordWorld, { pools }: RecordProcess): Promise<Reads> {
  for (const pool of [pools.app, pools.run]) {
    const clients = await Promise.all(Array.from({ length: pool.totalCount }, () => pool.connect()));
    for (const client of clients) {
      await client.query("select pg_stat_force_next_flush()");
      client.release();
    }
  }
  const { rows } = await own.one<{ rows: number }>(
    `select sum(seq_tup_read + coalesce(idx_tup_fetch, 0))::bigint as rows
     from pg_stat_user_tables where schemaname = 'signalbox'`,
  );
  const { buffers } = await own.one<{ buffers: number }>(
    `select (heap_blks_read + heap_blks_hit + idx_blks_read + idx_blks_hit)::bigint as buffers
     from pg_statio_user_tables where schemaname = 'signalbox' and relname = 'transcript_entry'`,
  );
  return { rowCount: rows, bufferCount: buffers };
}
