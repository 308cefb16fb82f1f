/** Asserting who the end user is: the claim, and its HMAC under the API key, in one header. */
import type { ActorClaim } from "@signalbox/contract";

export const ACTOR_HEADER = "Signalbox-Actor";

/** `base64url(JSON).base64url(HMAC-SHA-256(apiKey, first part))` */
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
