/** The database of this process: the one `url` names, or an embedded one that needs no installation. */
import { EmbeddedDatabase } from "./embedded-database.ts";
import { ExternalDatabase } from "./external-database.ts";
import type { ReportStep } from "./server-lifecycle.ts";

export interface OpenDatabaseOptions {
  /** `DATABASE_URL`, PostgreSQL 15 or newer. Absent or empty: embedded. */
  readonly url?: string | undefined;
  /** Holds the embedded cluster in `postgres/` and what belongs to it in `postgres.run/`. */
  readonly dataDir?: string;
  /** How long the embedded server outlives a last node that died without leaving. Whole seconds, rounded up. */
  readonly abandonedAfterMs?: number;
  readonly report?: ReportStep;
}

export type Database = EmbeddedDatabase | ExternalDatabase;

const DEFAULT_DATA_DIR = ".signalbox";
const DEFAULT_ABANDONED_AFTER_MS = 15_000;

/**
 * Ends with `database_unavailable`; `extra.reason` tells why and the detail what to do. Dispose the handle to leave the
 * embedded server, after closing your pools: the last one out stops it.
 */
export async function openDatabase(options: OpenDatabaseOptions): Promise<Database> {
  const { url = "" } = options;
  if (url !== "") {
    return ExternalDatabase.open(url);
  }
  return EmbeddedDatabase.open({
    dataDir: options.dataDir ?? DEFAULT_DATA_DIR,
    abandonedAfterMs: options.abandonedAfterMs ?? DEFAULT_ABANDONED_AFTER_MS,
    report: options.report ?? (() => undefined),
  });
}
