/**
 * Session ids of the era with a handshake. An id holds what a process needs to serve the session, sealed, so that every
 * process of the platform can serve every request of it; and it opens for the principal and the server it was given
 * for, and nobody else.
 */
import { createCipheriv, createDecipheriv, createHash } from "node:crypto";
import type { Randomness } from "@signalbox/core";
import { isObject, type Json } from "../mcp-protocol.ts";

export interface RelayedSession {
  /** The id that the tool server gave. */
  readonly upstreamId: string;
  /** The params of the client's `initialize`, so that a session which the tool server lost can be opened again. */
  readonly initialize: Json;
  readonly version: string;
}

const CIPHER = "aes-256-gcm";
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const ID_CHARS_MAX = 6_000;
/** What a client tells of itself beyond this is not kept for a session that is opened again. */
const INITIALIZE_CHARS_MAX = 2_000;

export class SealedSessions {
  readonly #key: Buffer;
  readonly #randomness: Randomness;

  /** `secret` is shared by all processes of the platform. */
  constructor(secret: string, randomness: Randomness) {
    this.#key = createHash("sha256").update(secret).digest();
    this.#randomness = randomness;
  }

  seal(session: RelayedSession, holder: { readonly principal: string; readonly server: string }): string {
    const whole = JSON.stringify(session.initialize);
    const initialize = whole.length > INITIALIZE_CHARS_MAX ? { protocolVersion: session.version } : session.initialize;
    const nonce = Buffer.from(this.#randomness.bytes(NONCE_BYTES));
    const cipher = createCipheriv(CIPHER, this.#key, nonce).setAAD(boundTo(holder));
    const sealed = cipher.update(JSON.stringify([session.upstreamId, session.version, initialize]), "utf8");
    return Buffer.concat([nonce, sealed, cipher.final(), cipher.getAuthTag()]).toString("base64url");
  }

  /** `null` for an id that is not one of ours, or of somebody else's session, or of another server. */
  open(id: string, holder: { readonly principal: string; readonly server: string }): RelayedSession | null {
    if (id.length > ID_CHARS_MAX) return null;
    const bytes = Buffer.from(id, "base64url");
    if (bytes.length <= NONCE_BYTES + TAG_BYTES) return null;
    try {
      const decipher = createDecipheriv(CIPHER, this.#key, bytes.subarray(0, NONCE_BYTES))
        .setAAD(boundTo(holder))
        .setAuthTag(bytes.subarray(-TAG_BYTES));
      const text = Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES)), decipher.final()]);
      // Sealed by `seal` with our key.
      const [upstreamId, version, initialize] = JSON.parse(text.toString("utf8")) as [string, string, unknown];
      return { upstreamId, version, initialize: isObject(initialize) ? initialize : {} };
    } catch {
      return null;
    }
  }
}

function boundTo({ principal, server }: { readonly principal: string; readonly server: string }): Buffer {
  return Buffer.from(JSON.stringify([principal, server]), "utf8");
}
