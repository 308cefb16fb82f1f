/** `Idempotency-Key`: its form, and the digest by which two bodies count as the same. */
import { canonicalJson, PlatformError } from "@signalbox/contract";
import type { Digest } from "@signalbox/core";
import type { PostKey } from "./api-record.ts";

const KEY_LIMIT = 255;
const PRINTABLE = /^[\x21-\x7e]+$/;

/** `scope` keeps the same key apart on different routes' bodies: another route is another body. */
export function postKey(options: {
  readonly header: string | string[] | undefined;
  readonly scope: string;
  readonly body: unknown;
  readonly digest: Digest;
}): PostKey | null {
  const { header } = options;
  if (header === undefined) return null;
  if (typeof header !== "string" || header.length > KEY_LIMIT || !PRINTABLE.test(header)) {
    throw new PlatformError(
      "invalid_request",
      `Idempotency-Key must be 1 to ${KEY_LIMIT} printable ASCII characters.`,
      {
        fields: [{ pointer: "Idempotency-Key", detail: "not a valid key" }],
      },
    );
  }
  return { key: header, bodyHash: options.digest.sha256Hex(`${options.scope}\n${canonicalJson(options.body)}`) };
}
