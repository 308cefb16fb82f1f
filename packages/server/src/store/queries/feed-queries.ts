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
/** Era, transaction, conversation, sequence. */
const PLACE = /^([1-9][0-9]{0,8})\.([0-9]{1,19})\.(cnv_[0-9a-f]{32})\.([0-9]{1,15})$/;
const FEED_URL = "/v1/events";

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

  /**
   * Ends with `invalid_cursor` for a cursor that is none of a feed's, `cursor_expired` for one behind which something
   * has been forgotten, and `cursor_lost` for one of a store that was put back to before it.
   */
  async read(viewer: Viewer, { after, agentId, limit }: FeedRequest): Promise<Feed> {
    const place = after === null ? BEGINNING : placeOf(after);
    const values = [viewer.tenantId, viewer.user, agentId, ...place, limit, PAGE_BYTES];
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
      throw beginAgain(translateDatabaseError(thrown));
    }
  }
}

function cursorOf(place: string): string {
  return Buffer.from(`${VERSION}.${place}`, "utf8").toString("base64url");
}

/** No era: whatever is kept of the feed, from its beginning. */
const BEGINNING = [null, "0", "", 0] as const;
type Place = readonly [number | null, string, string, number];

function placeOf(cursor: string): Place {
  const text = Buffer.from(cursor, "base64url").toString("utf8");
  const [place, era, position, conversationId, sequence] = PLACE.exec(text.slice(VERSION.length + 1)) ?? [];
  const known =
    place !== undefined &&
    era !== undefined &&
    position !== undefined &&
    conversationId !== undefined &&
    sequence !== undefined;
  if (!known || cursorOf(place) !== cursor) {
    throw new PlatformError(
      "invalid_cursor",
      "This is no cursor of the feed; take nextCursor of a page, or an event's id.",
    );
  }
  return [Number(era), position, conversationId, Number(sequence)];
}

/** Says also where, when the reader's place is gone. */
function beginAgain(error: PlatformError): PlatformError {
  const { code } = error;
  if (code !== "cursor_expired" && code !== "cursor_lost") return error;
  const why =
    code === "cursor_lost"
      ? "The store was put back to before this place."
      : "Events behind this place are no longer kept.";
  const detail = `${why} Begin with the oldest event that is kept, at ${FEED_URL} without a cursor.`;
  return new PlatformError(code, detail, { cause: error, extra: { eventsUrl: FEED_URL } });
}
