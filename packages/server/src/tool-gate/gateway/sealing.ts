/**
 * Texts that a client keeps for the platform and shows again: sealed, so that every process of the platform can read
 * them and nobody else, and bound to whom they were given for.
 */
import { createCipheriv, createDecipheriv, createHash } from "node:crypto";
import type { Randomness } from "@signalbox/core";

const CIPHER = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

export class Sealing {
  readonly #key: Buffer;
  readonly #randomness: Randomness;

  /** `secret` is shared by all processes of the platform. */
  constructor(secret: string, randomness: Randomness) {
    this.#key = createHash("sha256").update(secret).digest();
    this.#randomness = randomness;
  }

  seal(text: string, boundTo: readonly string[]): string {
    const nonce = Buffer.from(this.#randomness.bytes(NONCE_BYTES));
    const cipher = createCipheriv(CIPHER, this.#key, nonce).setAAD(bytesOf(boundTo));
    return Buffer.concat([nonce, cipher.update(text, "utf8"), cipher.final(), cipher.getAuthTag()]).toString(
      "base64url",
    );
  }

  /** `null` for what was not sealed here, or for somebody else. */
  open(sealed: string, boundTo: readonly string[]): string | null {
    const bytes = Buffer.from(sealed, "base64url");
    if (bytes.length <= NONCE_BYTES + TAG_BYTES) return null;
    try {
      const decipher = createDecipheriv(CIPHER, this.#key, bytes.subarray(0, NONCE_BYTES))
        .setAAD(bytesOf(boundTo))
        .setAuthTag(bytes.subarray(-TAG_BYTES));
      const text = Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]);
      return text.toString("utf8");
    } catch {
      return null;
    }
  }
}

function bytesOf(boundTo: readonly string[]): Buffer {
  return Buffer.from(JSON.stringify(boundTo), "utf8");
}
