/** Request bodies: strict UTF-8, then JSON, then well-formed text. Nothing past this point sees a lone surrogate or NUL. */
import { PlatformError, wellFormedJson } from "@signalbox/contract";

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });

export function parseJsonBody(bytes: Buffer): unknown {
  let text: string;
  try {
    text = decoder.decode(bytes);
  } catch (cause) {
    throw new PlatformError("invalid_encoding", undefined, { cause });
  }
  try {
    return wellFormedJson(JSON.parse(text));
  } catch (cause) {
    throw new PlatformError(
      "malformed_json",
      `The body is not valid JSON: ${cause instanceof Error ? cause.message : "unreadable"}.`,
      { cause },
    );
  }
}
