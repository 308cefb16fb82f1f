/**
 * One reader of a conversation: subscribed to the live channel first, then replaying the record from its cursor, then
 * both. What the record says goes out with its sequence as id; a live delta goes out without one, so that a client
 * never resumes past the truth. Bells may be lost: the record is read at least once a second.
 */
import type { LiveDelta } from "@signalbox/contract";
import type { ApiRecord, Scope } from "./api-record.ts";
import type { LiveSubscription } from "./services.ts";

const PAGE = 500;
const POLL_EVERY_MS = 1_000;

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
  readonly follow: boolean;
  readonly subscription: LiveSubscription;
  readonly stop: AbortSignal;
  readonly nowMs: () => number;
}

export async function* eventFeed(options: FeedOptions): AsyncGenerator<Frame, void, undefined> {
  let cursor = options.after;
  for (;;) {
    for (;;) {
      const rows = await options.record.events(options.scope, options.conversationId, cursor, PAGE);
      for (const row of rows) {
        cursor = row.sequence;
        yield { type: row.type, data: row.json, id: row.sequence, runId: row.runId };
      }
      if (rows.length < PAGE) break;
    }
    if (!options.follow || options.stop.aborted) return;
    yield* untilBell(options, () => cursor);
    if (options.stop.aborted) return;
  }
}

/** Live deltas until there may be something new in the record. */
async function* untilBell(options: FeedOptions, cursor: () => number): AsyncGenerator<Frame, void, undefined> {
  for (;;) {
    const signal = await options.subscription.next(POLL_EVERY_MS);
    if (signal === null || options.stop.aborted) return;
    if (signal.kind === "delta") {
      yield {
        type: signal.delta.type,
        data: renderDelta(signal.delta, options.nowMs()),
        id: null,
        runId: signal.delta.runId,
      };
    } else if (signal.kind === "reread" || signal.sequence > cursor()) {
      return;
    }
  }
}

function renderDelta(delta: LiveDelta, nowMs: number): string {
  return JSON.stringify({ ...delta, sequence: null, traceId: null, at: new Date(nowMs).toISOString() });
}
