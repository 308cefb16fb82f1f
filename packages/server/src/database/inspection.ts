/** What an operator should know about a database before trusting it with the record. */
import pg from "pg";
import type { PgConfig } from "./connection.ts";
import { withClient } from "./connection.ts";
import { SERVER_PROCESS, DURABILITY } from "./server-statements.ts";

const CONNECT_TIMEOUT_MS = 10_000;
/** Sessions at once: a pooler in transaction mode gives them fewer processes than that, or others each time. */
const PROBES = 4;

export interface DatabaseFacts {
  readonly version: string;
  readonly fsync: boolean;
  readonly fullPageWrites: boolean;
  readonly synchronousCommit: boolean;
  /** This user has Signalbox's roles, or may make them. */
  readonly rolesReady: boolean;
  /** The schema is there, or this user may make it. */
  readonly schemaReady: boolean;
  /** A pooler in transaction mode stands in between: a session is not one session of the server. */
  readonly transactionPooler: boolean;
}

interface DurabilityRow {
  readonly version: string;
  readonly fsync: boolean;
  readonly full_page_writes: boolean;
  readonly synchronous_commit: boolean;
  readonly may_create_roles: boolean;
  readonly has_roles: boolean | null;
  readonly may_have_schema: boolean;
}

export async function inspectDatabase(config: PgConfig): Promise<DatabaseFacts> {
  const row = await withClient(
    config,
    CONNECT_TIMEOUT_MS,
    async (client) => (await client.query<DurabilityRow>(DURABILITY)).rows[0],
  );
  return {
    version: row?.version ?? "",
    fsync: row?.fsync === true,
    fullPageWrites: row?.full_page_writes === true,
    synchronousCommit: row?.synchronous_commit === true,
    rolesReady: row?.has_roles === true || row?.may_create_roles === true,
    schemaReady: row?.may_have_schema === true,
    transactionPooler: await sharesServerProcesses(config),
  };
}

async function sharesServerProcesses(config: PgConfig): Promise<boolean> {
  const sessions = Array.from(
    { length: PROBES },
    () => new pg.Client({ ...config, connectionTimeoutMillis: CONNECT_TIMEOUT_MS }),
  );
  try {
    for (const session of sessions) {
      session.on("error", () => undefined);
      await session.connect();
    }
    const first = await Promise.all(sessions.map(serverProcessOf));
    const second = await Promise.all(sessions.toReversed().map(serverProcessOf));
    return new Set(first).size < PROBES || first.some((pid, at) => pid !== second.toReversed()[at]);
  } finally {
    await Promise.all(sessions.map((session) => session.end().catch(() => undefined)));
  }
}

async function serverProcessOf(session: pg.Client): Promise<number | null> {
  return (await session.query<{ readonly pid: number }>(SERVER_PROCESS)).rows[0]?.pid ?? null;
}
