/** Request bodies: strict UTF-8, then JSON, then well-formed text. Nothing past this point sees a lone surrogate or NUL. */
import { clip, PlatformError, wellFormed, wellFormedJson } from "@signalbox/contract";
import { changedByReading } from "./json-faults.ts";
import { jsonPointer } from "./json-pointer.ts";
import { API_LIMITS } from "./limits.ts";

const REASON_LIMIT_CHARS = 200;
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });

/**
 * Errors: `invalid_encoding`, `malformed_json`, `field_unknown` (`__proto__`), `invalid_request`: too deep, or not I-JSON
 * (RFC 7493), where a member that is given twice or a number without room in a double would be lost without a word.
 */
export function parseJsonBody(bytes: Uint8Array): unknown {
  const { memberCount, hasLongNumber } = look(bytes);
  const text = decode(bytes);
  const value = parse(text);
  const keptCount = checkKeys(value, "");
  // What is told twice is fewer members once it is read. Finding where takes another pass, which hardly any body needs.
  if (keptCount !== memberCount || hasLongNumber) refuseChanged(text);
  return wellFormedJson(value);
}

function refuseChanged(text: string): void {
  const fields = changedByReading(text);
  if (fields.length === 0) return;
  const [first] = fields;
  throw new PlatformError("invalid_request", `The body would not be read as it is written: ${first?.detail}.`, {
    fields,
  });
}

/** Errors: `unsupported_media_type` for bytes that would have to be read as something else than plain UTF-8. */
export function checkBodyHeaders(headers: {
  readonly "content-type"?: string | undefined;
  readonly "content-encoding"?: string | undefined;
}): void {
  const charset = /;\s*charset\s*=\s*"?([^";\s]+)/i.exec(headers["content-type"] ?? "")?.[1] ?? "utf-8";
  if (!/^utf-?8$/i.test(charset)) {
    throw new PlatformError("unsupported_media_type", "The body must be UTF-8; other character sets are not read.");
  }
  if (!/^(identity)?$/i.test(headers["content-encoding"] ?? "")) {
    throw new PlatformError("unsupported_media_type", "The body must not be compressed.");
  }
}

function decode(bytes: Uint8Array): string {
  try {
    return decoder.decode(bytes);
  } catch (cause) {
    throw new PlatformError("invalid_encoding", undefined, { cause });
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (cause) {
    // It quotes the body, and may cut it within a character.
    const reason = clip(wellFormed(cause instanceof Error ? cause.message : "unreadable"), REASON_LIMIT_CHARS);
    throw new PlatformError("malformed_json", `The body is not valid JSON: ${reason}`, { cause });
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_LIST = 0x5b;
const CLOSE_LIST = 0x5d;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;

const COLON = 0x3a;
const ZERO = 0x30;
const NINE = 0x39;
const EXPONENTS: ReadonlySet<number> = new Set([0x65, 0x45]);
/** Fewer digits fit into a double, whatever they are. */
const SURE_DIGITS = 15;

interface Looked {
  readonly memberCount: number;
  /** A number that may be another one once it is read. */
  readonly hasLongNumber: boolean;
}

/** Before parsing, which takes seconds for a body of nothing but brackets. UTF-8 has no such byte within a character. */
function look(bytes: Uint8Array): Looked {
  let depth = 0;
  let quoted = false;
  let memberCount = 0;
  let digitCount = 0;
  let hasLongNumber = false;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at] ?? 0;
    if (byte === QUOTE) quoted = !quoted;
    else if (quoted) at += byte === BACKSLASH ? 1 : 0;
    else if (byte >= ZERO && byte <= NINE) digitCount += 1;
    else {
      // `true` and `false` have an e of their own, and stand after no digit.
      hasLongNumber ||= digitCount > SURE_DIGITS || (digitCount > 0 && EXPONENTS.has(byte));
      digitCount = 0;
      if (byte === COLON) memberCount += 1;
      else if (byte === OPEN_LIST || byte === OPEN_OBJECT) depth += 1;
      else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) depth -= 1;
      if (depth > API_LIMITS.jsonDepth) throw tooDeep();
    }
  }
  return { memberCount, hasLongNumber: hasLongNumber || digitCount > SURE_DIGITS };
}

function tooDeep(): PlatformError {
  const detail = `The body is nested deeper than ${API_LIMITS.jsonDepth} levels.`;
  return new PlatformError("invalid_request", detail, { fields: [{ pointer: "", detail }] });
}

/**
 * Refuses a key that copying would turn into a prototype, and that schemas leave out without a word. Answers how many
 * members there are, those as one that are the same once they are well-formed.
 */
function checkKeys(value: unknown, pointer: string): number {
  if (typeof value !== "object" || value === null) return 0;
  if (Object.hasOwn(value, "__proto__")) {
    const fields = [{ pointer: `${pointer}/__proto__`, detail: "There is no such field." }];
    throw new PlatformError("field_unknown", "The request has a field that does not exist: __proto__.", { fields });
  }
  const entries = Object.entries(value);
  let count = Array.isArray(value) ? 0 : entries.length;
  if (entries.some(([key]) => !key.isWellFormed() || key.includes("\0"))) {
    count = new Set(entries.map(([key]) => wellFormed(key))).size;
  }
  for (const [key, each] of entries) {
    if (typeof each === "object") count += checkKeys(each, `${pointer}${jsonPointer([key])}`);
  }
  return count;
}
