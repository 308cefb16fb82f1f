/**
 * One reader of a conversation: subscribed to the live channel first, then replaying the record from its cursor, then
 * both. What the record says goes out with its sequence as id; a live delta goes out without one, so that a client
 * never resumes past the truth. Bells may be lost: the record is read at least once a second.
 */
import { PlatformError, type LiveDelta } from "@signalbox/contract";
import type { LiveSubscription } from "@signalbox/core";
import { cursorExpired } from "./cursor.ts";
import { oldestEventsUrl } from "./shapes.ts";
import type { ApiRecord, Scope, StoredEvent } from "./api-record.ts";

const PAGE = 500;

export interface Frame {
  readonly type: string;
  readonly data: string;
  /** Sequence of a durable event, `null` for a live delta. */
  readonly id: number | null;
  readonly runId: string | null;
}

export interface FeedOptions {
  readonly record: ApiRecord;
  readonly scope: Scope;
  readonly conversationId: string;
  readonly after: number;
  /** What is known to stand in the log after `after`, so that it need not be read; `null`: read it. */
  readonly known: readonly StoredEvent[] | null;
  readonly follow: boolean;
  readonly subscription: LiveSubscription;
  readonly nowMs: () => number;
}

/**
 * Ends when `subscription` is closed, or at the newest event where the reader does not follow. Rejects with
 * `cursor_expired` when events behind the reader's place were forgotten while it read, and with `not_found` when the
 * conversation is gone.
 */
export async function* eventFeed(options: FeedOptions): AsyncGenerator<Frame, void, undefined> {
  const signals = options.subscription[Symbol.asyncIterator]();
  let cursor = options.after;
  let { known } = options;
  let doubts = false;
  for (;;) {
    const { events: rows, more } =
      known === null
        ? await options.record.events(options.scope, options.conversationId, { after: cursor, limit: PAGE })
        : { events: known, more: false };
    known = null;
    // The log has no gaps: what does not follow on has been forgotten in between.
    if (rows[0] !== undefined && rows[0].sequence > cursor + 1) {
      throw cursorExpired(rows[0].sequence, oldestEventsUrl(options.conversationId));
    }
    for (const row of rows) {
      cursor = row.sequence;
      yield { type: row.type, data: row.json, id: row.sequence, runId: row.runId };
    }
    // A conversation that is gone says nothing, like one in which nothing happened.
    if (doubts && rows.length === 0 && !(await options.record.isThere(options.scope, options.conversationId))) {
      throw new PlatformError("not_found");
    }
    doubts = false;
    if (more) continue;
    if (!options.follow) return;
    let news = false;
    while (!news) {
      const signal = await signals.next();
      if (signal.done === true) return;
      if (signal.value.kind === "delta") yield frameOf(signal.value.delta, options.nowMs());
      else {
        doubts ||= signal.value.kind === "reread";
        news = doubts || (signal.value.kind === "bell" && signal.value.sequence > cursor);
      }
    }
  }
}

function frameOf(delta: LiveDelta, nowMs: number): Frame {
  return { type: delta.type, data: renderDelta(delta, nowMs), id: null, runId: delta.runId };
}

function renderDelta(delta: LiveDelta, nowMs: number): string {
  return JSON.stringify({ ...delta, sequence: null, traceId: null, at: new Date(nowMs).toISOString() });
}
