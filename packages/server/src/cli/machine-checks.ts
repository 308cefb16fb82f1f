/** What the doctor looks at on this machine, without a platform. */
import { mkdtempSync, rmdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { PlatformError } from "@signalbox/contract";
import type { ServerConfig } from "../config/server-config.ts";
import { inspectDatabase, type DatabaseFacts } from "../database/inspection.ts";
import { openDatabase } from "../database/open-database.ts";
import { findPlatformPackage } from "../database/platform-package.ts";
import { fail, ok, warn, type HealthCheck } from "./health-check.ts";

const NODE_FLOOR = { major: 22, minor: 18 } as const;

export function checkNode(version: string): HealthCheck {
  const [major = 0, minor = 0] = version.replace(/^v/, "").split(".").map(Number);
  const enough = major > NODE_FLOOR.major || (major === NODE_FLOOR.major && minor >= NODE_FLOOR.minor);
  if (enough) return ok("node", version);
  return fail("node", version, `Signalbox needs Node ${NODE_FLOOR.major}.${NODE_FLOOR.minor} or newer.`);
}

/** The folder itself, or the nearest one above it, in which it would be made. */
export function checkDataDir(dataDir: string): HealthCheck {
  const advice = "Choose another with SIGNALBOX_DATA_DIR, or grant access to it.";
  const nearest = nearestThere(dataDir);
  try {
    // Permissions alone do not tell: the file system may be read-only, full, or a file.
    rmdirSync(mkdtempSync(join(nearest, ".signalbox-doctor-")));
    return ok("data directory", nearest === dataDir ? dataDir : `${dataDir} (will be made)`);
  } catch (thrown) {
    return fail("data directory", `${nearest} cannot be written to (${reasonOf(thrown)})`, advice);
  }
}

export async function checkDatabase(config: ServerConfig): Promise<readonly HealthCheck[]> {
  if (config.databaseUrl === null) return [await checkBinaries()];
  const checks = await checkUrl("database", config.databaseUrl);
  const { databaseDirectUrl: direct } = config;
  return direct === null || direct === config.databaseUrl ? checks : [...checks, ...(await checkDirect(direct))];
}

async function checkUrl(name: string, url: string): Promise<readonly HealthCheck[]> {
  try {
    await using database = await openDatabase({ url });
    const facts = await inspectDatabase(database.pgConfig);
    return [ok(name, `PostgreSQL ${facts.version} answers`), ...judge(facts)];
  } catch (thrown) {
    return [fail(name, detailOf(thrown), "Mend DATABASE_URL, or unset it to use the embedded PostgreSQL.")];
  }
}

/** The address past a pooler has one purpose. */
async function checkDirect(url: string): Promise<readonly HealthCheck[]> {
  const name = "direct database address";
  try {
    await using database = await openDatabase({ url });
    const { transactionPooler } = await inspectDatabase(database.pgConfig);
    if (!transactionPooler) return [ok(name, "reaches the server itself")];
    const advice = "Name an address of the server itself in SIGNALBOX_DATABASE_DIRECT_URL.";
    return [fail(name, "leads through a pooler in transaction mode too", advice)];
  } catch (thrown) {
    return [fail(name, detailOf(thrown), "Mend SIGNALBOX_DATABASE_DIRECT_URL.")];
  }
}

async function checkBinaries(): Promise<HealthCheck> {
  try {
    const found = await findPlatformPackage();
    return ok("database", `embedded PostgreSQL ${found.version} (${found.name})`);
  } catch (thrown) {
    return fail("database", detailOf(thrown), "Set DATABASE_URL to a PostgreSQL 15 or newer.");
  }
}

export function judge(facts: DatabaseFacts): readonly HealthCheck[] {
  return [checkDurability(facts), checkPreparation(facts), checkSessions(facts)];
}

function checkDurability(facts: DatabaseFacts): HealthCheck {
  const off = [
    facts.fsync ? null : "fsync",
    facts.fullPageWrites ? null : "full_page_writes",
    facts.synchronousCommit ? null : "synchronous_commit",
  ].filter((name) => name !== null);
  if (off.length === 0) return ok("durability", "a committed transaction survives");
  const advice = "An acknowledged message may be lost when the server dies; turn them on.";
  return warn("durability", `${off.join(", ")} off`, advice);
}

function checkPreparation(facts: DatabaseFacts): HealthCheck {
  const missing = [facts.rolesReady ? null : "roles", facts.schemaReady ? null : "the schema"].filter(
    (name) => name !== null,
  );
  if (missing.length === 0) return ok("database roles", "present, or may be created");
  const advice = "Start the platform once: it prints the statements for an administrator.";
  return fail("database roles", `${missing.join(" and ")} missing, and this user may not create them`, advice);
}

function checkSessions(facts: DatabaseFacts): HealthCheck {
  if (!facts.transactionPooler) return ok("database sessions", "direct");
  const advice = "Name a direct address in SIGNALBOX_DATABASE_DIRECT_URL for presence and doorbells.";
  return warn("database sessions", "a pooler in transaction mode", advice);
}

function nearestThere(path: string): string {
  let nearest = path;
  while (statSync(nearest, { throwIfNoEntry: false }) === undefined && dirname(nearest) !== nearest) {
    nearest = dirname(nearest);
  }
  return nearest;
}

function reasonOf(thrown: unknown): string {
  return thrown instanceof Error && "code" in thrown ? String(thrown.code) : String(thrown);
}

function detailOf(thrown: unknown): string {
  return thrown instanceof PlatformError ? thrown.detail : thrown instanceof Error ? thrown.message : String(thrown);
}
