/** Asserting who the end user is: the claim, and its HMAC under the API key, in one header. */
import type { ActorClaim } from "@signalbox/contract";

/** Header in which a product asserts the end user it speaks for. */
export const ACTOR_HEADER = "Signalbox-Actor";

/**
 * The header's value: `base64url(JSON).base64url(HMAC-SHA-256(apiKey, first part))`. Sign on a server: whoever has the
 * API key can speak for everybody. The key needs the right `assert_actor`, else requests end in `permission_denied`.
 */
export async function signActor(apiKey: string, actor: ActorClaim): Promise<string> {
  const encoder = new TextEncoder();
  const payload = base64Url(encoder.encode(JSON.stringify(actor)));
  const key = await crypto.subtle.importKey("raw", encoder.encode(apiKey), { name: "HMAC", hash: "SHA-256" }, false, [
    "sign",
  ]);
  const signature = await crypto.subtle.sign("HMAC", key, encoder.encode(payload));
  return `${payload}.${base64Url(new Uint8Array(signature))}`;
}

function base64Url(bytes: Uint8Array): string {
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}
