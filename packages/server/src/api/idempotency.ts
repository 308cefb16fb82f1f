/** `Idempotency-Key`: its form, the digest by which two bodies count as the same, and answers given once. */
import { canonicalJson, PlatformError } from "@signalbox/contract";
import type { Digest } from "@signalbox/core";
import type { Once, PostKey, Recorded } from "./api-record.ts";
import type { Answer } from "./route.ts";

const KEY_LIMIT = 255;
const PRINTABLE = /^[\x21-\x7e]+$/;

export function postKey(options: {
  readonly header: string | string[] | undefined;
  readonly route: string;
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
  return { key: header, route: options.route, bodyHash: options.digest.sha256Hex(canonicalJson(options.body)) };
}

/** Creates something and answers 201, or gives the first answer again. */
export async function createOnce<T>(
  key: PostKey | null,
  options: {
    readonly create: (once: Once<T> | null) => Promise<Recorded<T>>;
    readonly show: (value: T) => object;
    readonly location: (value: T) => string;
  },
): Promise<Answer> {
  const answer = (value: T) => ({ status: 201, body: JSON.stringify(options.show(value)) });
  const recorded = await options.create(key === null ? null : { ...key, answer });
  if (recorded.kind === "replayed") {
    return { status: recorded.status, body: recorded.body, headers: { "idempotent-replayed": "true" } };
  }
  return { ...answer(recorded.value), headers: { location: options.location(recorded.value) } };
}
