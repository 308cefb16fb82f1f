/** Making API keys: the only moment their text exists on this side. The record keeps an HMAC. */
import { makeId, uuidV7Bytes } from "@signalbox/contract";
import { apiKeyHmac, RIGHTS, type Right } from "../api/caller.ts";
import type { ServerConfig } from "../config/server-config.ts";
import { openDatabase } from "../database/open-database.ts";
import { migrate } from "../store/migrations.ts";
import { StorePools } from "../store/pools.ts";
import { ApiKeyQueries } from "../store/queries/api-key-queries.ts";
import { TenantDatabase } from "../store/tenant-database.ts";
import { systemClock, systemRandomness } from "../system/ports.ts";
import { derive, platformSecret } from "../tenancy/secret.ts";

const PREFIX_CHARS = 12;
const KEY_BYTES = 32;

export const DEFAULT_TENANT = "default";

export interface NewKey {
  readonly tenantId: string;
  readonly name: string;
  readonly rights: readonly Right[];
}

export interface IssuedKey {
  readonly id: string;
  /** Shown once; it cannot be read again. */
  readonly key: string;
}

/** A new key, written straight to the database of `config`: what an operator does before anybody has a key. */
export async function issueApiKey(config: ServerConfig, wanted: NewKey): Promise<IssuedKey> {
  await using database = await openDatabase({ url: config.databaseUrl ?? "", dataDir: config.dataDir });
  await migrate(database.pgConfig);
  await using pools = new StorePools(database.pgConfig, { connectionCount: 1 });
  const apiKeys = new ApiKeyQueries(new TenantDatabase(pools.app), pools.run);
  const key = `sbx_${Buffer.from(systemRandomness.bytes(KEY_BYTES)).toString("base64url")}`;
  const id = await save(apiKeys, { ...wanted, key, secret: platformSecret(config.secret, config.dataDir) });
  return { id, key };
}

/** The key that `signalbox dev` prints: it follows from the platform's secret, so it stays the same over restarts. */
export async function ensureDevKey(apiKeys: ApiKeyQueries, secret: string): Promise<string> {
  const key = `sbx_dev_${derive(secret, "development api key")}`;
  await save(apiKeys, { tenantId: DEFAULT_TENANT, name: "development", rights: RIGHTS, key, secret });
  return key;
}

async function save(
  apiKeys: ApiKeyQueries,
  wanted: NewKey & { readonly key: string; readonly secret: string },
): Promise<string> {
  const row = await apiKeys.create({
    keyId: makeId("apiKey", uuidV7Bytes(systemClock.nowMs(), systemRandomness.bytes(10))),
    tenantId: wanted.tenantId,
    name: wanted.name,
    prefix: wanted.key.slice(0, PREFIX_CHARS),
    hash: apiKeyHmac(wanted.secret, wanted.key),
    rights: wanted.rights,
    actor: { keyId: "operator", user: null, roles: [], units: [] },
  });
  return row.keyId;
}
