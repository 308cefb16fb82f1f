/** What the doctor looks at on this machine, without a platform. */
import { accessSync, constants, existsSync } from "node:fs";
import { dirname } from "node:path";
import { PlatformError } from "@signalbox/contract";
import type { ServerConfig } from "../config/server-config.ts";
import { inspectDatabase, type DatabaseFacts } from "../database/inspection.ts";
import { openDatabase } from "../database/open-database.ts";
import { findPlatformPackage } from "../database/platform-package.ts";
import { fail, ok, warn, type HealthCheck } from "./health-check.ts";

const NODE_FLOOR = [22, 18] as const;

export function checkNode(version: string): HealthCheck {
  const [major = 0, minor = 0] = version.replace(/^v/, "").split(".").map(Number);
  const enough = major > NODE_FLOOR[0] || (major === NODE_FLOOR[0] && minor >= NODE_FLOOR[1]);
  return enough ? ok("node", version) : fail("node", version, `Signalbox needs Node ${NODE_FLOOR.join(".")} or newer.`);
}

export function checkDataDir(dataDir: string): HealthCheck {
  let nearest = dataDir;
  while (!existsSync(nearest) && dirname(nearest) !== nearest) nearest = dirname(nearest);
  try {
    accessSync(nearest, constants.W_OK | constants.X_OK);
    return ok("data directory", dataDir);
  } catch {
    return fail(
      "data directory",
      `${nearest} is not writable`,
      "Choose another with SIGNALBOX_DATA_DIR, or grant access to it.",
    );
  }
}

export async function checkDatabase(config: ServerConfig): Promise<readonly HealthCheck[]> {
  if (config.databaseUrl === null) return [await checkBinaries()];
  try {
    await using database = await openDatabase({ url: config.databaseUrl });
    return [ok("database", "DATABASE_URL answers"), ...judge(await inspectDatabase(database.pgConfig))];
  } catch (thrown) {
    const found = thrown instanceof PlatformError ? thrown.detail : String(thrown);
    return [fail("database", found, "Mend DATABASE_URL, or unset it to use the embedded PostgreSQL.")];
  }
}

async function checkBinaries(): Promise<HealthCheck> {
  try {
    const found = await findPlatformPackage();
    return ok("database", `embedded PostgreSQL (${found.name})`);
  } catch (thrown) {
    const found = thrown instanceof PlatformError ? thrown.detail : String(thrown);
    return fail("database", found, "Set DATABASE_URL to a PostgreSQL 15 or newer.");
  }
}

function judge(facts: DatabaseFacts): readonly HealthCheck[] {
  const unsafe = [
    facts.fsync ? null : "fsync",
    facts.fullPageWrites ? null : "full_page_writes",
    facts.synchronousCommit ? null : "synchronous_commit",
  ].filter((name) => name !== null);
  return [
    unsafe.length === 0
      ? ok("durability", "a committed transaction survives")
      : warn(
          "durability",
          `${unsafe.join(", ")} off`,
          "An acknowledged message may be lost when the server dies; turn them on.",
        ),
    facts.rolesReady
      ? ok("database roles", "present, or may be created")
      : fail(
          "database roles",
          "missing, and this user may not create them",
          "Start the platform once: it prints the statements for an administrator.",
        ),
    facts.transactionPooler
      ? warn(
          "database sessions",
          "a pooler in transaction mode",
          "Name a direct address in SIGNALBOX_DATABASE_DIRECT_URL for presence and doorbells.",
        )
      : ok("database sessions", "direct"),
  ];
}
