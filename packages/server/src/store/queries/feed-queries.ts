/** The feed over all conversations of a tenant. Its cursors are opaque: a place in the order of transactions. */
import { PlatformError, type PlatformEvent } from "@signalbox/contract";
import type { Pool } from "pg";
import { translateDatabaseError } from "../database-errors.ts";
import { READ_FEED } from "../statements/event-statements.ts";
import { eventOf, type EventRow } from "./event-queries.ts";
import type { Viewer } from "./viewer.ts";

/** What is read at once. */
const PAGE_BYTES = 1_048_576;
const VERSION = "f1";
/** Transaction, conversation, sequence. */
const PLACE = /^([0-9]{1,19})\.(cnv_[0-9a-f]{32})\.([0-9]{1,15})$/;

export interface FeedRequest {
  /** `nextCursor` of the page before, or of an event; `null` begins with the oldest event that is kept. */
  readonly after: string | null;
  readonly agentId: string | null;
  readonly limit: number;
}

export interface Feed {
  readonly events: readonly { readonly cursor: string; readonly event: PlatformEvent }[];
  /** Where to go on; `null` while there has never been anything. */
  readonly nextCursor: string | null;
  readonly more: boolean;
}

interface FeedRow extends EventRow {
  readonly place: string;
  readonly conversation_id: string;
  readonly shown: boolean;
  readonly more: boolean;
}

export class FeedQueries {
  readonly #pool: Pool;

  /** `pool` must connect as the role `signalbox_app`. */
  constructor(pool: Pool) {
    this.#pool = pool;
  }

  /** Ends with `invalid_cursor` for a cursor that is none of a feed's. */
  async read(viewer: Viewer, { after, agentId, limit }: FeedRequest): Promise<Feed> {
    const [position, conversationId, sequence] = after === null ? ["0", "", 0] : placeOf(after);
    const values = [viewer.tenantId, viewer.user, agentId, position, conversationId, sequence, limit, PAGE_BYTES];
    try {
      const { rows } = await this.#pool.query<FeedRow>({ ...READ_FEED, values });
      const last = rows.at(-1);
      return {
        events: rows.flatMap((row) =>
          row.shown ? [{ cursor: cursorOf(row.place), event: eventOf(row, row.conversation_id) }] : [],
        ),
        nextCursor: last === undefined ? after : cursorOf(last.place),
        more: last?.more ?? false,
      };
    } catch (thrown) {
      throw translateDatabaseError(thrown);
    }
  }
}

function cursorOf(place: string): string {
  return Buffer.from(`${VERSION}.${place}`, "utf8").toString("base64url");
}

function placeOf(cursor: string): readonly [string, string, number] {
  const text = Buffer.from(cursor, "base64url").toString("utf8");
  const [, position, conversationId, sequence] = PLACE.exec(text.slice(VERSION.length + 1)) ?? [];
  const known = position !== undefined && conversationId !== undefined && sequence !== undefined;
  if (!known || cursorOf(`${position}.${conversationId}.${sequence}`) !== cursor) {
    throw new PlatformError(
      "invalid_cursor",
      "This is no cursor of the feed; take nextCursor of a page, or an event's id.",
    );
  }
  return [position, conversationId, Number(sequence)];
}
