/**
 * The one choke point for text. PostgreSQL refuses NUL in text and lone surrogates in jsonb, providers refuse
 * lone surrogates in JSON: one such character, once stored, would poison every later turn of a conversation.
 * Both are replaced visibly by U+FFFD; the literal six characters `\u0000` are ordinary text and stay.
 */
const REPLACEMENT = "\uFFFD";

export function wellFormed(text: string): string {
  const whole = text.isWellFormed() ? text : text.toWellFormed();
  return whole.includes("\u0000") ? whole.replaceAll("\u0000", REPLACEMENT) : whole;
}

export type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };

/** `wellFormed` for every string and key of a JSON value. Returns the same object when nothing had to change. */
export function wellFormedJson<T>(value: T): T {
  if (typeof value === "string") return wellFormed(value) as T & string;
  if (Array.isArray(value)) {
    const next = value.map((each) => wellFormedJson(each));
    return next.every((each, index) => each === value[index]) ? value : (next as T & unknown[]);
  }
  if (typeof value === "object" && value !== null) {
    let changed = false;
    const next: Record<string, unknown> = {};
    for (const [key, each] of Object.entries(value)) {
      const cleanKey = wellFormed(key);
      const cleanEach = wellFormedJson(each);
      changed ||= cleanKey !== key || cleanEach !== each;
      Object.defineProperty(next, cleanKey, { value: cleanEach, enumerable: true, writable: true, configurable: true });
    }
    return changed ? (next as T & Record<string, unknown>) : value;
  }
  return value;
}

/** At most `limit` UTF-16 units, never cutting a surrogate pair. Marks the cut with `…`. */
export function clip(text: string, limit: number): string {
  if (text.length <= limit) return text;
  const end = limit - 1;
  const last = text.charCodeAt(end - 1);
  const splitsPair = last >= 0xd800 && last <= 0xdbff;
  return `${text.slice(0, splitsPair ? end - 1 : end)}…`;
}
