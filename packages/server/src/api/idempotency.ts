/** `Idempotency-Key`: its form, the digest by which two bodies count as the same, and answers given once. */
import { canonicalJson, PlatformError } from "@signalbox/contract";
import { LIMITS, type Digest } from "@signalbox/core";
import type { Once, PostKey, Recorded, Scope } from "./api-record.ts";
import type { Answer } from "./route.ts";

const PRINTABLE = /^[\x21-\x7e]+$/;

export interface KeyedPost {
  readonly header: string | string[] | undefined;
  readonly route: string;
  /** The body as it was sent: defaults may change with a release, what was sent does not. */
  readonly body: unknown;
  readonly scope: Scope;
  readonly digest: Digest;
}

/** `null` when the request has no key. Errors: `invalid_request`. */
export function postKey(post: KeyedPost): PostKey | null {
  const { header, route, body, scope, digest } = post;
  if (header === undefined) return null;
  if (typeof header !== "string" || header.length > LIMITS.idempotencyKeyChars || !PRINTABLE.test(header)) {
    const detail = `Idempotency-Key must be 1 to ${LIMITS.idempotencyKeyChars} printable ASCII characters.`;
    throw new PlatformError("invalid_request", detail, {
      fields: [{ pointer: "Idempotency-Key", detail: "not a valid key" }],
    });
  }
  // Keys are kept by tenant. Two end users of it may choose the same one, and neither may get the other's answer.
  const key = scope.user === null ? header : digest.sha256Hex(canonicalJson([scope.user, header]));
  return { key, route, bodyHash: digest.sha256Hex(canonicalJson(body)) };
}

export interface Creation<T> {
  readonly create: (once: Once<T> | null) => Promise<Recorded<T>>;
  readonly show: (value: T) => { readonly id: string };
  /** Address of the thing with this id. */
  readonly addressOf: (id: string) => string;
}

/** Creates something and answers 201, or gives the first answer again. */
export async function createOnce<T>(key: PostKey | null, creation: Creation<T>): Promise<Answer> {
  const answer = (value: T) => ({ status: 201, body: JSON.stringify(creation.show(value)) });
  const recorded = await creation.create(key === null ? null : { ...key, answer });
  if (recorded.kind === "replayed") return replay(recorded, creation.addressOf);
  const { id } = creation.show(recorded.value);
  return { ...answer(recorded.value), headers: { location: creation.addressOf(id) } };
}

/** The answer that was given the first time, as it was given. */
export function replay(
  recorded: { readonly status: number; readonly body: string },
  addressOf?: (id: string) => string,
): Answer {
  const replayed = { "idempotent-replayed": "true" };
  if (addressOf === undefined) return { ...recorded, headers: replayed };
  // Whatever has an address was answered with a document that has an id.
  const { id } = JSON.parse(recorded.body) as { readonly id: string };
  return { status: recorded.status, body: recorded.body, headers: { location: addressOf(id), ...replayed } };
}
