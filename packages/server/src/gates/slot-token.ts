/** The only credential an engine has. It is hashed at once and never kept, logged or passed on. */
import type { IncomingHttpHeaders } from "node:http";
import { PlatformError } from "@signalbox/contract";
import type { Digest } from "@signalbox/core";

const TOKEN_CHARS_MAX = 512;

/** SHA-256 (hex) of the slot token of a request: `Authorization: Bearer …`, or `x-api-key` as model clients send it. */
export function slotTokenHash(headers: IncomingHttpHeaders, digest: Digest): string {
  const token = bearerOf(headers.authorization) ?? headerOf(headers["x-api-key"]);
  if (token === null || token === "" || token.length > TOKEN_CHARS_MAX) {
    throw new PlatformError("unauthenticated", "A gate needs the slot token of an engine.");
  }
  return digest.sha256Hex(token);
}

function bearerOf(header: string | undefined): string | null {
  const match = header === undefined ? null : /^bearer +(\S+) *$/i.exec(header);
  return match?.[1] ?? null;
}

function headerOf(header: string | readonly string[] | undefined): string | null {
  return typeof header === "string" ? header.trim() : null;
}
