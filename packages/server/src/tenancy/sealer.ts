/**
 * Secrets that must be read again, such as those that sign: sealed with AES-256-GCM under a key that follows from the
 * platform's secret, and bound to what they belong to, so that one row's secret is of no use in another row.
 */
import { createCipheriv, createDecipheriv, createHmac, randomBytes } from "node:crypto";

const FORM = 1;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const KEY_ID_CHARS = 16;

export interface Sealer {
  /** Says by which key something was sealed, and nothing about the key. */
  readonly keyId: string;
  /** `about` names what the text belongs to; it is needed to open it. */
  seal(text: string, about: string): Buffer;
  /** `null` when it was sealed by another key, or for something else, or was altered. */
  open(sealed: Uint8Array, about: string): string | null;
}

/** `purpose` keeps uses of the platform's secret apart. */
export function createSealer(secret: string, purpose: string): Sealer {
  const key = createHmac("sha256", secret).update(`seal ${purpose}`).digest();
  return {
    keyId: createHmac("sha256", key).update("key id").digest("hex").slice(0, KEY_ID_CHARS),
    seal(text, about) {
      const nonce = randomBytes(NONCE_BYTES);
      const cipher = createCipheriv("aes-256-gcm", key, nonce).setAAD(Buffer.from(about, "utf8"));
      const hidden = Buffer.concat([cipher.update(text, "utf8"), cipher.final()]);
      return Buffer.concat([Buffer.of(FORM), nonce, cipher.getAuthTag(), hidden]);
    },
    open(sealed, about) {
      const bytes = Buffer.from(sealed);
      const start = 1 + NONCE_BYTES + TAG_BYTES;
      if (bytes.length < start || bytes[0] !== FORM) return null;
      const nonce = bytes.subarray(1, 1 + NONCE_BYTES);
      try {
        const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: TAG_BYTES })
          .setAAD(Buffer.from(about, "utf8"))
          .setAuthTag(bytes.subarray(1 + NONCE_BYTES, start));
        return Buffer.concat([decipher.update(bytes.subarray(start)), decipher.final()]).toString("utf8");
      } catch {
        return null;
      }
    },
  };
}
