/**
 * Session ids of the era with a handshake. An id holds what a process needs to serve the session, sealed, so that every
 * process of the platform can serve every request of it; and it opens for the principal and the server it was given
 * for, and nobody else.
 */
import type { Randomness } from "@signalbox/core";
import { isObject, type Json } from "../mcp-protocol.ts";
import { Sealing } from "./sealing.ts";

export interface RelayedSession {
  /** The id that the tool server gave. */
  readonly upstreamId: string;
  /** The params of the client's `initialize`, so that a session which the tool server lost can be opened again. */
  readonly initialize: Json;
  readonly version: string;
}

const ID_CHARS_MAX = 6_000;
/** What a client tells of itself beyond this is not kept for a session that is opened again. */
const INITIALIZE_CHARS_MAX = 2_000;

export class SealedSessions {
  readonly #sealing: Sealing;

  /** `secret` is shared by all processes of the platform. */
  constructor(secret: string, randomness: Randomness) {
    this.#sealing = new Sealing(secret, randomness);
  }

  seal(session: RelayedSession, { principal, server }: Holder): string {
    const whole = JSON.stringify(session.initialize);
    const initialize = whole.length > INITIALIZE_CHARS_MAX ? { protocolVersion: session.version } : session.initialize;
    const text = JSON.stringify([session.upstreamId, session.version, initialize]);
    return this.#sealing.seal(text, [principal, server]);
  }

  /** `null` for an id that is not one of ours, or of somebody else's session, or of another server. */
  open(id: string, { principal, server }: Holder): RelayedSession | null {
    if (id.length > ID_CHARS_MAX) return null;
    const text = this.#sealing.open(id, [principal, server]);
    if (text === null) return null;
    // Sealed by `seal` with our key.
    const [upstreamId, version, initialize] = JSON.parse(text) as [string, string, unknown];
    return { upstreamId, version, initialize: isObject(initialize) ? initialize : {} };
  }
}

interface Holder {
  readonly principal: string;
  readonly server: string;
}
