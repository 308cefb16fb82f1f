import { PlatformError } from "@signalbox/contract";
import type { TranscriptEntry } from "@signalbox/worker";

/** Entries up to the leaf. What an earlier opening of the same owner wrote after it belongs to a turn that is run again. */
export function upTo(leaf: string, entries: readonly TranscriptEntry[]): readonly TranscriptEntry[] {
  const end = entries.findIndex((entry) => entry.stream === "" && entry.entryId === leaf);
  if (end < 0) {
    throw new PlatformError("transcript_corrupt", "The transcript lacks the entry it should end with.");
  }
  return entries.slice(0, end + 1);
}
