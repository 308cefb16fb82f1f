/**
 * The one choke point for text. PostgreSQL refuses NUL in text and lone surrogates in jsonb, providers refuse
 * lone surrogates in JSON: one such character, once stored, would poison every later turn of a conversation.
 * Both are replaced visibly by U+FFFD; the literal six characters `\u0000` are ordinary text and stay.
 */
const REPLACEMENT = "\uFFFD";

/** `text` with each NUL and each lone surrogate replaced by U+FFFD; the same string when there is none. */
export function wellFormed(text: string): string {
  const whole = text.isWellFormed() ? text : text.toWellFormed();
  return whole.includes("\u0000") ? whole.replaceAll("\u0000", REPLACEMENT) : whole;
}

/** A value that JSON can say. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** `wellFormed` for every string and key of a JSON value. Returns the same object when nothing had to change. */
export function wellFormedJson<T>(value: T): T {
  // Strings become strings, arrays arrays, objects objects with the same members: the type stays what it was.
  return clean(value) as T;
}

function clean(value: unknown): unknown {
  if (typeof value === "string") return wellFormed(value);
  if (Array.isArray(value)) return cleanArray(value);
  return typeof value === "object" && value !== null ? cleanObject(value) : value;
}

function cleanArray(value: readonly unknown[]): unknown {
  const next = value.map((each) => clean(each));
  return next.every((each, index) => each === value[index]) ? value : next;
}

function cleanObject(value: object): unknown {
  let changed = false;
  const next: Record<string, unknown> = {};
  for (const [key, each] of Object.entries(value)) {
    const cleanKey = wellFormed(key);
    const cleanEach = clean(each);
    changed ||= cleanKey !== key || cleanEach !== each;
    // Assigning to a key named `__proto__` would set the prototype instead.
    Object.defineProperty(next, cleanKey, { value: cleanEach, enumerable: true, writable: true, configurable: true });
  }
  return changed ? next : value;
}

/** At most `limit` UTF-16 units, never cutting a surrogate pair. Marks the cut with `…`, for which there is room from 1. */
export function clip(text: string, limit: number): string {
  if (text.length <= limit) return text;
  if (limit < 1) return "";
  const end = limit - 1;
  const last = text.charCodeAt(end - 1);
  const splitsPair = last >= 0xd800 && last <= 0xdbff;
  return `${text.slice(0, splitsPair ? end - 1 : end)}…`;
}
