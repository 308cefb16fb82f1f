/** How the server itself is reached, past any pooler. */
import type { ServerConfig } from "../config/server-config.ts";
import type { Database } from "../database/open-database.ts";

export function directConfigOf(config: ServerConfig, database: Database): Database["pgConfig"] {
  const direct = config.databaseDirectUrl;
  return direct === null || direct === config.databaseUrl ? database.pgConfig : { connectionString: direct };
}
