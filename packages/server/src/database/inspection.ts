/** What an operator should know about a database before trusting it with the record. */
import pg from "pg";
import type { PgConfig } from "./connection.ts";
import { withClient } from "./connection.ts";
import { BACKEND, DURABILITY } from "./server-statements.ts";

const CONNECT_TIMEOUT_MS = 10_000;
/** A pooler in transaction mode gives consecutive statements to different backends when others are busy. */
const PROBES = 8;

export interface DatabaseFacts {
  readonly fsync: boolean;
  readonly fullPageWrites: boolean;
  readonly synchronousCommit: boolean;
  /** Signalbox's roles are there already, or this user may make them. */
  readonly rolesReady: boolean;
  /** Statements of one session ran on several backends: a pooler in transaction mode stands in between. */
  readonly transactionPooler: boolean;
}

interface DurabilityRow {
  readonly fsync: boolean;
  readonly full_page_writes: boolean;
  readonly synchronous_commit: boolean;
  readonly may_create_roles: boolean;
  readonly roles_exist: boolean;
}

export async function inspectDatabase(config: PgConfig): Promise<DatabaseFacts> {
  const row = await withClient(
    config,
    CONNECT_TIMEOUT_MS,
    async (client) => (await client.query<DurabilityRow>(DURABILITY)).rows[0],
  );
  return {
    fsync: row?.fsync === true,
    fullPageWrites: row?.full_page_writes === true,
    synchronousCommit: row?.synchronous_commit === true,
    rolesReady: row?.roles_exist === true || row?.may_create_roles === true,
    transactionPooler: await changesBackends(config),
  };
}

async function changesBackends(config: PgConfig): Promise<boolean> {
  const sessions = Array.from(
    { length: PROBES },
    () => new pg.Client({ ...config, connectionTimeoutMillis: CONNECT_TIMEOUT_MS }),
  );
  try {
    for (const session of sessions) {
      session.on("error", () => undefined);
      await session.connect();
    }
    const first = await Promise.all(sessions.map((session) => backendOf(session)));
    const second = await Promise.all(sessions.toReversed().map((session) => backendOf(session)));
    return first.some((pid, index) => pid !== second.toReversed()[index]);
  } finally {
    await Promise.all(sessions.map((session) => session.end().catch(() => undefined)));
  }
}

async function backendOf(session: pg.Client): Promise<number | null> {
  return (await session.query<{ readonly pid: number }>(BACKEND)).rows[0]?.pid ?? null;
}
