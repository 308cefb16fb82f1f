/** What an operator says of a store that was restored or cloned: a new era opens, whatever the store shows of itself. */
import { askRecord } from "../store/record-call.ts";
import { migrate } from "../store/migrations.ts";
import { connectDirectly } from "../store/pools.ts";
import { RUN_ROLE } from "../store/roles.ts";
import { OPEN_ERA } from "../store/statements/record-statements.ts";
import type { ServerConfig } from "../config/server-config.ts";
import { openDatabase } from "../database/open-database.ts";
import { directConfigOf } from "./direct-config.ts";

const TIMEOUT_MS = 60_000;

/** Answers the number of the era. Running processes begin anew in it by themselves. */
export async function openEraAfterRestore(config: ServerConfig): Promise<number> {
  await using database = await openDatabase({ url: config.databaseUrl ?? "", dataDir: config.dataDir });
  const direct = directConfigOf(config, database);
  await migrate(direct);
  const client = await connectDirectly(direct, { role: RUN_ROLE, name: "recover", queryTimeoutMs: TIMEOUT_MS });
  try {
    return await askRecord<number>(client, OPEN_ERA, ["operator", null]);
  } finally {
    await client.end();
  }
}
