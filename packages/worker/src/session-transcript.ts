import { PlatformError } from "@signalbox/contract";
import type { SessionContext, TranscriptLog } from "./executor.ts";

/**
 * The record gate under the fence of one session. The first answer that says another owner has the conversation ends
 * the session at once, here and not in the engine: an engine may swallow or retry what its store throws.
 */
export function fencedTranscript(log: TranscriptLog, onLost: SessionContext["onLost"]): TranscriptLog {
  let stale: PlatformError | null = null;
  const guarded = async <T>(call: () => Promise<T>): Promise<T> => {
    if (stale !== null) {
      throw stale;
    }
    try {
      return await call();
    } catch (thrown) {
      if (thrown instanceof PlatformError && (thrown.code === "stale_generation" || thrown.code === "slot_unknown")) {
        stale ??= thrown;
        onLost(thrown.code, thrown.detail);
      }
      throw thrown;
    }
  };
  return {
    append: (entries, compaction) => guarded(() => log.append(entries, compaction)),
    replaceTail: (behind, entries) => guarded(() => log.replaceTail(behind, entries)),
    outcomes: (toolUseIds) => guarded(() => log.outcomes(toolUseIds)),
    load: () => guarded(() => log.load()),
  };
}
