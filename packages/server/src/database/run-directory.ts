/**
 * Whose register and record these are. A copy of a data directory brings along who uses the original and where its server
 * listens: to believe that would be to take the original's socket away from it.
 */
import { readFile, rm, stat, writeFile } from "node:fs/promises";
import { errorCode } from "./database-error.ts";
import type { Layout } from "./layout.ts";
import { removeRecord } from "./server-record.ts";

/** Forgets what was written of another directory. The caller holds the lock. */
export async function forgetElsewhere(layout: Layout): Promise<void> {
  const { dev, ino } = await stat(layout.runDir, { bigint: true });
  const here = `${dev}:${ino}\n`;
  const written = await readFile(layout.placeFile, "utf8").catch(nullIfAbsent);
  if (written === here) {
    return;
  }
  // A release that wrote no place left its register here itself, or its copy cannot be told from it.
  if (written !== null) {
    await rm(layout.nodesDir, { recursive: true, force: true });
    await removeRecord(layout);
  }
  await writeFile(layout.placeFile, here, { mode: 0o600 });
}

function nullIfAbsent(error: unknown): null {
  if (errorCode(error) === "ENOENT") {
    return null;
  }
  throw error;
}
