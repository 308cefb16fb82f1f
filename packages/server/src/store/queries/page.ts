/** Keyset pages: a cursor names the last row of a page, so rows that come or go never shift the next one. */
import { PlatformError } from "@signalbox/contract";

export interface PageRequest {
  readonly limit: number;
  /** `nextCursor` of the page before, or `null` for the first. */
  readonly cursor: string | null;
  readonly order: "asc" | "desc";
}

export interface Page<T> {
  readonly items: readonly T[];
  readonly nextCursor: string | null;
}

const CURSOR_VERSION = "1";
/** Ids and numbers: nothing a database could refuse. */
const KEY = /^[\x21-\x7e]{1,64}$/;
const NUMBER = /^-?[0-9]{1,15}$/;

function encodeCursor(key: string): string {
  return Buffer.from(`${CURSOR_VERSION}.${key}`, "utf8").toString("base64url");
}

/** Ends with `invalid_cursor` for anything this module did not make. */
export function decodeCursor(cursor: string): string {
  const text = Buffer.from(cursor, "base64url").toString("utf8");
  const key = text.slice(CURSOR_VERSION.length + 1);
  if (!text.startsWith(`${CURSOR_VERSION}.`) || !KEY.test(key) || encodeCursor(key) !== cursor) {
    throw new PlatformError("invalid_cursor");
  }
  return key;
}

/** The key of a list that is sorted by a number. */
export function decodeNumberCursor(cursor: string): number {
  const key = decodeCursor(cursor);
  if (!NUMBER.test(key)) {
    throw new PlatformError("invalid_cursor");
  }
  return Number(key);
}

/** `rows` holds one row more than `limit` when there is another page. */
export function pageOf<Row, Item>(
  rows: readonly Row[],
  limit: number,
  shape: { readonly key: (row: Row) => string; readonly item: (row: Row) => Item },
): Page<Item> {
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  return {
    items: shown.map((row) => shape.item(row)),
    nextCursor: rows.length > limit && last !== undefined ? encodeCursor(shape.key(last)) : null,
  };
}
