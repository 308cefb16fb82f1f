/** How the `pg` package and everybody who takes a URL reach a database. */
import { Client } from "pg";
import { SOCKET_PORT } from "./socket-directory.ts";
import { SUPERUSER } from "./cluster.ts";

/** To be spread into the configuration of a `Pool` or `Client` of the `pg` package. */
export type PgConfig =
  | { readonly connectionString: string }
  | { readonly host: string; readonly port: number; readonly user: string; readonly database: string };

/** Our tables live here; `postgres` stays as PostgreSQL made it, for administration. */
export const DATABASE_NAME = "signalbox";

export function embeddedConfig(socketDir: string, database: string = DATABASE_NAME): PgConfig {
  return { host: socketDir, port: SOCKET_PORT, user: SUPERUSER, database };
}

export function embeddedUrl(socketDir: string): string {
  return `postgresql:///${DATABASE_NAME}?host=${encodeURIComponent(socketDir)}&port=${SOCKET_PORT}&user=${SUPERUSER}`;
}

export async function withClient<Answer>(
  config: PgConfig,
  connectTimeoutMs: number,
  use: (client: Client) => Promise<Answer>,
): Promise<Answer> {
  const client = new Client({ ...config, connectionTimeoutMillis: connectTimeoutMs });
  // A connection that breaks between statements reports it here; unheard, it would end the process.
  client.on("error", () => undefined);
  try {
    await client.connect();
    return await use(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}
