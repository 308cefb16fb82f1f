/** The key that `signalbox dev` prints: it follows from the platform's secret, so it stays the same over restarts. */
import { makeId, uuidV7Bytes } from "@signalbox/contract";
import type { Clock, Randomness } from "@signalbox/core";
import { apiKeyHmac, RIGHTS } from "../api/caller.ts";
import type { ApiKeyQueries } from "../store/queries/api-key-queries.ts";
import { derive } from "../tenancy/secret.ts";

const PREFIX_CHARS = 12;

export const DEFAULT_TENANT = "default";

export async function ensureDevKey(options: {
  readonly apiKeys: ApiKeyQueries;
  readonly secret: string;
  readonly clock: Clock;
  readonly randomness: Randomness;
}): Promise<string> {
  const { apiKeys, secret, clock, randomness } = options;
  const key = `sbx_dev_${derive(secret, "development api key")}`;
  await apiKeys.create({
    keyId: makeId("apiKey", uuidV7Bytes(clock.nowMs(), randomness.bytes(10))),
    tenantId: DEFAULT_TENANT,
    name: "development",
    prefix: key.slice(0, PREFIX_CHARS),
    hash: apiKeyHmac(secret, key),
    rights: RIGHTS,
    actor: { keyId: "platform", user: null, roles: [], units: [] },
  });
  return key;
}
