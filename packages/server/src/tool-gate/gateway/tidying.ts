/** Closes what dead gates left open in the ledger of clients' calls, and removes what is old, a few rows at a time. */
import type { Clock, GatewayRecord, Log, Randomness } from "@signalbox/core";

const EVERY_MS = 60_000;
const ROWS = 500;
const BATCHES_MAX = 20;

/** Resolves when `stopping` is aborted. */
export async function keepTidy(ports: {
  readonly record: Pick<GatewayRecord, "tidy">;
  readonly retentionMs: number;
  readonly clock: Clock;
  readonly randomness: Randomness;
  readonly log: Log;
  readonly stopping: AbortSignal;
}): Promise<void> {
  const { record, retentionMs, clock, randomness, log, stopping } = ports;
  const batch = { ageMs: retentionMs, limit: ROWS };
  // Processes that began together do not tidy up together.
  while ((await clock.sleep(EVERY_MS * (0.5 + randomness.fraction()), stopping)) === "elapsed") {
    try {
      for (let count = ROWS, at = 0; count >= ROWS && at < BATCHES_MAX; at += 1) count = await record.tidy(batch);
    } catch (thrown) {
      log.warn("the ledger of clients' calls could not be tidied", { reason: String(thrown) });
    }
  }
}
