/** Randomness and digests. The only way to new ids and tokens, so that a simulation can replay a history. */
export interface Randomness {
  bytes(count: number): Uint8Array;
  /** 0 ≤ result < 1. */
  fraction(): number;
}

export interface Digest {
  /** SHA-256 of the UTF-8 bytes of `text`, as 64 lower-case hex digits. */
  sha256Hex(text: string): string;
}
