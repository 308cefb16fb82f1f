import type { MemoryDatabase } from "./database.ts";

/** Registered, and not declared dead. Whether its lease still runs is the sweep's question. */
export function isAlive(db: MemoryDatabase, process: number): boolean {
  const row = db.processes.get(String(process));
  return row !== undefined && row.deadAtMs === null;
}
