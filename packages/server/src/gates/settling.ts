/** An outcome belongs to its call and is recorded by the gate that opened it, also when the record is away for a while. */
import { asPlatformError } from "@signalbox/contract";
import type { Clock, Log } from "@signalbox/core";

const PAUSES_MS: readonly number[] = [50, 200, 800, 2_000];

/** Runs `settle`, again after a pause while it fails in a way that may pass. Rejects with the last error. */
export async function settleFirmly<T>(settle: () => Promise<T>, ports: { clock: Clock; log: Log }): Promise<T> {
  for (const pauseMs of PAUSES_MS) {
    try {
      return await settle();
    } catch (thrown) {
      const error = asPlatformError(thrown);
      if (!error.facts.retryable) throw error;
      ports.log.warn("an outcome could not be recorded yet", { code: error.code, pauseMs });
      await ports.clock.sleep(pauseMs);
    }
  }
  return settle();
}
