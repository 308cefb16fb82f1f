/**
 * Ids without randomness: the same seed and the same request give the same ids. With `unique` the number of the
 * request takes part as well, as a real provider never gives an id twice.
 */
import { createHash } from "node:crypto";

export type IdMode = "stable" | "unique";

export interface IdSource {
  /** `prefix` followed by 24 characters that depend on seed, request and label. */
  id(prefix: string, label: string): string;
}

export interface IdOptions {
  readonly seed: number;
  readonly mode: IdMode;
  readonly body: Buffer;
  /** Number of the request at this server, from 0. */
  readonly ordinal: number;
}

export function idSource({ seed, mode, body, ordinal }: IdOptions): IdSource {
  const request = createHash("sha256")
    .update(`${seed}\n${mode === "unique" ? ordinal : ""}\n`)
    .update(body)
    .digest();
  const digest = (label: string) => createHash("sha256").update(request).update(label).digest();
  return { id: (prefix, label) => prefix + digest(label).toString("hex").slice(0, 24) };
}

const SIGNATURE = "sim-";

/** What a thinking block is signed with: whoever alters the thought no longer has the signature for it. */
export function signatureOf(thinking: string): string {
  return SIGNATURE + createHash("sha256").update(`signature\n${thinking}`).digest("hex").slice(0, 40);
}

/** Signatures of others are none of our business. */
export function isForged(thinking: string, signature: string): boolean {
  return signature.startsWith(SIGNATURE) && signature !== signatureOf(thinking);
}

/** A number in 0..2³²-1 that depends on seed and text. */
export function numberFrom(seed: number, text: string): number {
  return createHash("sha256").update(`${seed}\n${text}`).digest().readUInt32BE(0);
}
