import { z } from "zod";

/**
 * Who asks, as the product asserts it in the header `Signalbox-Actor`: `base64url(JSON).base64url(signature)`, where
 * the signature is the HMAC-SHA-256 of the first part under the API key. The key needs the right `assert_actor`.
 * At most 32 roles and 32 units of at most 64 characters; a user has at most 256. Errors of a claim that does not fit:
 * `invalid_actor`, `permission_denied`.
 */
export const actorClaimSchema = z.strictObject({
  user: z.string().min(1).max(256),
  roles: z.array(z.string().min(1).max(64)).max(32).default([]),
  units: z.array(z.string().min(1).max(64)).max(32).default([]),
});

/** The end user a product speaks for, with roles and units; both are empty by default. */
export type ActorClaim = z.infer<typeof actorClaimSchema>;
