/** The event log of one conversation, from any cursor. Hot: one statement that names its tenant itself. */
import type { PlatformEvent } from "@signalbox/contract";
import type { Pool } from "pg";
import { translateDatabaseError } from "../database-errors.ts";
import { EVENT_PLACE, READ_PAGE } from "../statements/event-statements.ts";
import type { Viewer } from "./viewer.ts";

/** What is read at once; a reader that is slow keeps it in memory. */
const PAGE_BYTES = 1_048_576;

export interface EventsPage {
  readonly events: readonly PlatformEvent[];
  /** Whether there may be more behind them. */
  readonly more: boolean;
}

export interface EventPlace {
  /** Sequence of the newest event; 0 when there is none yet. */
  readonly lastSequence: number;
  /** The oldest cursor that still works; 0 while every event is kept. */
  readonly keptSequence: number;
  /** Whether an era has been opened since the conversation began: places of its log may have been lost. */
  readonly replaced: boolean;
}

export class EventQueries {
  readonly #pool: Pool;

  /** `pool` must connect as the role `signalbox_app`. */
  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /** Where the log begins and ends, or `null` when the viewer may not see the conversation. */
  async place(viewer: Viewer, conversationId: string): Promise<EventPlace | null> {
    const values = [viewer.tenantId, viewer.user, conversationId];
    const [row] = await this.#query<PlaceRow>(EVENT_PLACE, values);
    if (row === undefined) return null;
    return { lastSequence: row.last_sequence, keptSequence: row.kept_sequence, replaced: row.replaced };
  }

  /**
   * Events with a sequence greater than `afterSequence`, in order: at most `limit` of them, and no more once they come
   * to a megabyte. Empty for a stranger.
   */
  async page(
    viewer: Viewer,
    conversationId: string,
    range: { readonly afterSequence: number; readonly limit: number },
  ): Promise<EventsPage> {
    const values = [viewer.tenantId, viewer.user, conversationId, range.afterSequence, range.limit, PAGE_BYTES];
    const rows = await this.#query<EventRow & { readonly more: boolean }>(READ_PAGE, values);
    return { events: rows.map((row) => eventOf(row, conversationId)), more: rows.at(-1)?.more ?? false };
  }

  /** The events of one page. */
  async after(
    viewer: Viewer,
    conversationId: string,
    range: { readonly afterSequence: number; readonly limit: number },
  ): Promise<readonly PlatformEvent[]> {
    return (await this.page(viewer, conversationId, range)).events;
  }

  async #query<Row extends object>(statement: { readonly name: string; readonly text: string }, values: unknown[]) {
    try {
      return (await this.#pool.query<Row>({ ...statement, values })).rows;
    } catch (thrown) {
      throw translateDatabaseError(thrown);
    }
  }
}

interface PlaceRow {
  readonly last_sequence: number;
  readonly kept_sequence: number;
  readonly replaced: boolean;
}

/** A row of the log; `at` is a time, or its text where the row came as JSON. */
export interface EventRow {
  readonly sequence: number;
  readonly item_id: string;
  readonly revision: number;
  readonly type: string;
  readonly run_id: string | null;
  readonly turn_id: string | null;
  readonly trace_id: string | null;
  readonly generation: number;
  readonly data: string;
  readonly at: Date | string;
}

export function eventOf(row: EventRow, conversationId: string): PlatformEvent {
  // The writers of the log are typed; what they stored is an event of this type.
  return {
    type: row.type,
    itemId: row.item_id,
    sequence: row.sequence,
    revision: row.revision,
    conversationId,
    runId: row.run_id,
    turnId: row.turn_id,
    traceId: row.trace_id,
    generation: row.generation,
    at: (typeof row.at === "string" ? new Date(row.at) : row.at).toISOString(),
    ...(JSON.parse(row.data) as object),
  } as PlatformEvent;
}
