/**
 * What two parsers could read in two ways is refused: an object with the same key twice means one thing to whoever
 * judges it and perhaps another to whoever acts on it. So is what is nested so deeply that somebody's stack ends.
 */
import { wellFormedJson } from "@signalbox/contract";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPENS = new Set([0x7b, 0x5b]);
const CLOSES = new Set([0x7d, 0x5d]);
const OBJECT = 0x7b;
const COLON = 0x3a;
const DEPTH_MAX = 64;

/** Half of a pair, or NUL, as JSON writes it. */
const ESCAPED_HALF = /\\u(?:d[89a-f]|0000)/i;

/** Whether valid JSON may have texts that are none everybody can read. */
export function mayBeIllFormed(text: string): boolean {
  return ESCAPED_HALF.test(text);
}

/** Valid JSON with every such text replaced visibly; otherwise as it is. */
export function wellFormedBody(text: string): string {
  return mayBeIllFormed(text) ? JSON.stringify(wellFormedJson(JSON.parse(text))) : text;
}

/** Why this text, which is valid JSON, is not taken; `null` when it is. */
export function ambiguityIn(text: string): string | null {
  // Keys seen so far of each open object; `null` for an array.
  const open: (Set<string> | null)[] = [];
  let at = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      const end = endOfString(text, at);
      const keys = open.at(-1);
      if (keys !== null && keys !== undefined && isKey(text, end)) {
        const key = keyIn(text.slice(at, end));
        if (keys.has(key)) return "An object has the same key twice.";
        keys.add(key);
      }
      at = end;
      continue;
    }
    if (OPENS.has(code)) {
      if (open.length === DEPTH_MAX) return `Values may be nested at most ${DEPTH_MAX} deep.`;
      open.push(code === OBJECT ? new Set() : null);
    } else if (CLOSES.has(code)) {
      open.pop();
    }
    at += 1;
  }
  return null;
}

/** Behind the closing quote. */
function endOfString(text: string, from: number): number {
  let at = from + 1;
  for (;;) {
    const quote = text.indexOf('"', at);
    if (quote < 0) return text.length;
    let slashes = 0;
    while (text.charCodeAt(quote - 1 - slashes) === BACKSLASH) slashes += 1;
    if (slashes % 2 === 0) return quote + 1;
    at = quote + 1;
  }
}

function isKey(text: string, end: number): boolean {
  let at = end;
  while (at < text.length && text.charCodeAt(at) <= 0x20) at += 1;
  return text.charCodeAt(at) === COLON;
}

function keyIn(literal: string): string {
  return literal.includes("\\") ? String(JSON.parse(literal)) : literal.slice(1, -1);
}
