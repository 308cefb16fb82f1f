/**
 * Connections by role. Requests go through `app`, which stays inside the tenant its transaction names; claims, sweeps,
 * group commit and gates go through `run`. Nothing of a request outlives its transaction on a pooled connection.
 */
import pg, { type Client, type ClientConfig, type Pool } from "pg";
import { APP_ROLE, RUN_ROLE, type Role } from "./roles.ts";
import { beginSession, type SessionBounds } from "./statements/session-statements.ts";

const INT8 = 20;

const BOUNDS: SessionBounds = { statementMs: 30_000, idleInTransactionMs: 10_000 };
const CONNECT_TIMEOUT_MS = 10_000;
const IDLE_MS = 60_000;
const DEFAULT_CONNECTIONS = 10;

export interface StoreOptions {
  /** Connections of each pool. */
  readonly connectionCount?: number;
  /** Told about idle connections that break; the pool replaces them by itself. */
  readonly onConnectionLost?: (error: Error) => void;
}

export class StorePools implements AsyncDisposable {
  readonly app: Pool;
  readonly run: Pool;

  constructor(config: ClientConfig, options: StoreOptions = {}) {
    this.app = openPool(config, APP_ROLE, options);
    this.run = openPool(config, RUN_ROLE, options);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.app.end(), this.run.end()]);
  }
}

function openPool(config: ClientConfig, role: Role, options: StoreOptions): Pool {
  const pool = new pg.Pool({
    ...config,
    application_name: `signalbox ${role}`,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    idleTimeoutMillis: IDLE_MS,
    max: options.connectionCount ?? DEFAULT_CONNECTIONS,
    types: { getTypeParser: parserOf },
    // Runs once for each new connection, before anybody gets it.
    verify(client, done) {
      // The driver passes no error as null, which its types do not say.
      client.query(beginSession(role, BOUNDS), (error: Error | null) => done(error ?? undefined));
    },
  });
  // Without a listener a broken idle connection would end the process.
  pool.on("error", (error) => options.onConnectionLost?.(error));
  return pool;
}

/** A connection of its own, past any pooler: for presence and for listening. The caller ends it. */
export async function connectDirectly(
  config: ClientConfig,
  options: { readonly role: Role; readonly name: string; readonly queryTimeoutMs: number },
): Promise<Client> {
  const client = new pg.Client({
    ...config,
    application_name: `signalbox ${options.name}`,
    connectionTimeoutMillis: options.queryTimeoutMs,
    query_timeout: options.queryTimeoutMs,
    keepAlive: true,
    types: { getTypeParser: parserOf },
  });
  // The caller adds its own; this one only keeps an early break from ending the process.
  client.on("error", () => undefined);
  try {
    await client.connect();
    await client.query(beginSession(options.role, BOUNDS));
  } catch (error) {
    await client.end().catch(() => undefined);
    throw error;
  }
  return client;
}

/** Our 64-bit numbers (sequences, generations × 2²⁰, micro-dollars) are below 2⁵³. */
function safeInteger(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) {
    throw new RangeError(`the number ${text} is larger than any of ours`);
  }
  return value;
}

const parserOf: typeof pg.types.getTypeParser = (oid: number, format?: "text" | "binary") =>
  // The overloads of the driver's own function cannot be written down for a function that delegates to it.
  (oid === INT8 && format !== "binary" ? safeInteger : pg.types.getTypeParser(oid, format)) as never;
