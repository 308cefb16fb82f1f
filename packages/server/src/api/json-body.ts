/** Request bodies: strict UTF-8, then JSON, then well-formed text. Nothing past this point sees a lone surrogate or NUL. */
import { clip, PlatformError, wellFormed, wellFormedJson } from "@signalbox/contract";
import { jsonPointer } from "./json-pointer.ts";
import { API_LIMITS } from "./limits.ts";

const REASON_LIMIT_CHARS = 200;
const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });

/** Errors: `invalid_encoding`, `malformed_json`, `invalid_request` (too deep), `field_unknown` (`__proto__`). */
export function parseJsonBody(bytes: Uint8Array): unknown {
  checkDepth(bytes);
  const value = parse(decode(bytes));
  checkKeys(value, "");
  return wellFormedJson(value);
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

/** Before parsing, which takes seconds for a body of nothing but brackets. UTF-8 has no bracket within a character. */
function checkDepth(bytes: Uint8Array): void {
  let depth = 0;
  let quoted = false;
  for (let at = 0; at < bytes.length; at += 1) {
    const byte = bytes[at];
    if (byte === QUOTE) quoted = !quoted;
    else if (quoted) at += byte === BACKSLASH ? 1 : 0;
    else if (byte === OPEN_LIST || byte === OPEN_OBJECT) depth += 1;
    else if (byte === CLOSE_LIST || byte === CLOSE_OBJECT) depth -= 1;
    if (depth > API_LIMITS.jsonDepth) {
      const detail = `The body is nested deeper than ${API_LIMITS.jsonDepth} levels.`;
      throw new PlatformError("invalid_request", detail, { fields: [{ pointer: "", detail }] });
    }
  }
}

/** Refuses a key that copying would turn into a prototype, and that schemas leave out without a word. */
function checkKeys(value: unknown, pointer: string): void {
  if (typeof value !== "object" || value === null) return;
  if (Object.hasOwn(value, "__proto__")) {
    const fields = [{ pointer: `${pointer}/__proto__`, detail: "There is no such field." }];
    throw new PlatformError("field_unknown", "The request has a field that does not exist: __proto__.", { fields });
  }
  for (const [key, each] of Object.entries(value)) {
    if (typeof each === "object") checkKeys(each, `${pointer}${jsonPointer([key])}`);
  }
}
