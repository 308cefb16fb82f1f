/** What is forgotten, on the server's side: one process of several does it at a time. */
import { createUpkeep, DAY_MS, type Log } from "@signalbox/core";
import { systemCancellation, systemClock, systemRandomness } from "../system/ports.ts";
import type { PlatformRecord } from "./record.ts";

export function startUpkeep(
  record: PlatformRecord,
  options: { readonly log: Log; readonly retentionDays: number },
): AsyncDisposable {
  const ports = {
    clock: systemClock,
    cancellation: systemCancellation,
    randomness: systemRandomness,
    log: options.log,
  };
  const eventRetentionMs = options.retentionDays * DAY_MS;
  const upkeep = createUpkeep({ ...ports, record: record.upkeep }, { eventRetentionMs });
  upkeep.start();
  return upkeep;
}
