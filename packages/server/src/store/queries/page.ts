/** Keyset pages: a cursor names the last row of a page, so rows that come or go never shift the next one. */
import { createHash } from "node:crypto";
import { canonicalJson, PlatformError } from "@signalbox/contract";

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

/** What is listed, for whom, narrowed by what, in which order: a cursor goes on with exactly this list. */
export interface List {
  readonly name: string;
  readonly tenantId: string;
  readonly user?: string | null;
  readonly order: PageRequest["order"];
  readonly filter?: Readonly<Record<string, string | boolean | readonly string[] | null | undefined>>;
}

const CURSOR_VERSION = "3";
const DIGEST_CHARS = 16;
/** Ids and numbers: nothing a database could refuse. */
const KEY = /^[\x21-\x7e]{1,64}$/;
const NUMBER = /^-?[0-9]{1,15}$/;

function encodeCursor(list: List, key: string): string {
  return Buffer.from(`${CURSOR_VERSION}.${digestOf(list, key)}.${key}`, "utf8").toString("base64url");
}

/** Over the key, too: a cursor that was cut short names another row, and no list would miss it. */
function digestOf(list: List, key: string): string {
  const { name, tenantId, user = null, order, filter = {} } = list;
  const given = Object.entries(filter).filter(([, value]) => value !== undefined && value !== null);
  const text = canonicalJson([name, tenantId, user, order, Object.fromEntries(given), key]);
  return createHash("sha256").update(text).digest("hex").slice(0, DIGEST_CHARS);
}

/** `null` for the first page. Ends with `invalid_cursor` for anything that is no cursor of this very list. */
export function decodeCursor(cursor: string | null, list: List): string | null {
  if (cursor === null) return null;
  const [, , ...rest] = Buffer.from(cursor, "base64url").toString("utf8").split(".");
  const key = rest.join(".");
  if (!KEY.test(key) || encodeCursor(list, key) !== cursor) {
    throw new PlatformError("invalid_cursor", "The cursor is not one of this list, its filters and its order.", {
      fields: [{ pointer: "cursor", detail: "is not one of this list" }],
    });
  }
  return key;
}

/** The key of a list that is sorted by a number. */
export function decodeNumberCursor(cursor: string | null, list: List): number | null {
  const key = decodeCursor(cursor, list);
  if (key !== null && !NUMBER.test(key)) throw new PlatformError("invalid_cursor");
  return key === null ? null : Number(key);
}

/** `rows` holds one row more than `page.limit` when there is another page. */
export function pageOf<Row, Item>(
  rows: readonly Row[],
  page: { readonly limit: number; readonly list: List },
  shape: { readonly key: (row: Row) => string; readonly item: (row: Row) => Item },
): Page<Item> {
  const shown = rows.slice(0, page.limit);
  const last = shown.at(-1);
  return {
    items: shown.map((row) => shape.item(row)),
    nextCursor: rows.length > page.limit && last !== undefined ? encodeCursor(page.list, shape.key(last)) : null,
  };
}
