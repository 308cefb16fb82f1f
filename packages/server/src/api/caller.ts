/** Who asks: the API key, and the end user it may assert. Frozen into run, slot and audit from here on. */
import { createHmac, timingSafeEqual } from "node:crypto";
import { actorClaimSchema, PlatformError, wellFormed, type Actor, type ActorClaim } from "@signalbox/contract";
import type { ApiKey, ApiRecord, Scope } from "./api-record.ts";

export const RIGHTS = ["read", "write", "agents", "assert_actor", "operate", "tools"] as const;
export type Right = (typeof RIGHTS)[number];

export interface Caller {
  readonly scope: Scope;
  readonly actor: Actor;
  readonly key: ApiKey;
}

/** The scheme is written in any case, the key in one. */
const KEY_FORM = /^[Bb][Ee][Aa][Rr][Ee][Rr] +(sbx_[A-Za-z0-9_-]{20,128})$/;
/** A revoked key works at most this long after its revocation; every other call needs no look-up. */
const REMEMBER_MS = 5_000;
const REMEMBERED_LIMIT = 10_000;

export function apiKeyHmac(secret: string, key: string): Buffer {
  return createHmac("sha256", secret).update(key).digest();
}

export class Callers {
  readonly #record: ApiRecord;
  readonly #secret: string;
  readonly #monotonicMs: () => number;
  readonly #remembered = new Map<string, { readonly key: ApiKey; readonly untilMs: number }>();

  constructor(options: { readonly record: ApiRecord; readonly secret: string; readonly monotonicMs: () => number }) {
    this.#record = options.record;
    this.#secret = options.secret;
    this.#monotonicMs = options.monotonicMs;
  }

  async identify(headers: {
    readonly authorization?: string | undefined;
    readonly actor?: string | undefined;
  }): Promise<Caller> {
    const match = KEY_FORM.exec(headers.authorization ?? "");
    const presented = match?.[1];
    if (presented === undefined) throw new PlatformError("unauthenticated", unreadable(headers.authorization));
    const key = await this.#find(presented);
    if (key === null) throw new PlatformError("unauthenticated", "This API key is not known or was revoked.");
    const claim = headers.actor === undefined ? null : verifyActor(headers.actor, presented);
    if (claim !== null && !key.rights.includes("assert_actor")) {
      throw new PlatformError("permission_denied", "This key may not speak for an end user.");
    }
    return {
      key,
      scope: { tenantId: key.tenantId, user: claim?.user ?? null },
      actor: { keyId: key.id, user: claim?.user ?? null, roles: claim?.roles ?? [], units: claim?.units ?? [] },
    };
  }

  async #find(presented: string): Promise<ApiKey | null> {
    const hmac = apiKeyHmac(this.#secret, presented);
    const name = hmac.toString("base64");
    const nowMs = this.#monotonicMs();
    const remembered = this.#remembered.get(name);
    if (remembered !== undefined && remembered.untilMs > nowMs) return remembered.key;
    this.#remembered.delete(name);
    const key = await this.#record.apiKey(hmac);
    if (key !== null) {
      if (this.#remembered.size >= REMEMBERED_LIMIT) this.#remembered.clear();
      this.#remembered.set(name, { key, untilMs: nowMs + REMEMBER_MS });
    }
    return key;
  }
}

/** A key that was sent and is none is not told like one that is missing. */
function unreadable(authorization: string | undefined): string {
  const how = "Send an API key as `Authorization: Bearer sbx_…`.";
  const [scheme = "", ...rest] = (authorization ?? "").trim().split(/ +/);
  if (scheme === "" || (scheme.toLowerCase() === "bearer" && rest.length === 0)) return how;
  if (scheme.toLowerCase() !== "bearer") return `Another scheme than Bearer was sent. ${how}`;
  return "What was sent is not an API key of this platform: one begins with `sbx_` and is at least 24 characters long.";
}

/** For whom something is done, as the record wants it. */
export function authorised({ scope, actor }: Caller): { readonly tenantId: string; readonly actor: Actor } {
  return { tenantId: scope.tenantId, actor };
}

export function demand(caller: Caller, right: Right): void {
  if (!caller.key.rights.includes(right)) {
    throw new PlatformError("permission_denied", `This key lacks the right "${right}".`);
  }
}

/** `base64url(JSON).base64url(HMAC-SHA-256(apiKey, first part))` */
function verifyActor(header: string, apiKey: string): ActorClaim {
  const [payload, signature, ...rest] = header.split(".");
  if (payload === undefined || signature === undefined || rest.length > 0) {
    throw new PlatformError("invalid_actor", "`Signalbox-Actor` is a payload and a signature, joined by a dot.");
  }
  const expected = createHmac("sha256", apiKey).update(payload).digest();
  const given = Buffer.from(signature, "base64url");
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) {
    throw new PlatformError("invalid_actor", "The signature of `Signalbox-Actor` does not fit this API key.");
  }
  const parsed = actorClaimSchema.safeParse(readClaim(payload));
  if (!parsed.success) {
    throw new PlatformError("invalid_actor", "The payload of `Signalbox-Actor` must be {user, roles, units}.");
  }
  // Mending a name would let two users become one.
  const { user, roles, units } = parsed.data;
  if ([user, ...roles, ...units].some((name) => wellFormed(name) !== name)) {
    throw new PlatformError("invalid_actor", "A name in `Signalbox-Actor` holds NUL or half a character.");
  }
  return parsed.data;
}

function readClaim(payload: string): unknown {
  try {
    return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(Buffer.from(payload, "base64url")));
  } catch (cause) {
    throw new PlatformError("invalid_actor", "The payload of `Signalbox-Actor` is not JSON.", { cause });
  }
}
