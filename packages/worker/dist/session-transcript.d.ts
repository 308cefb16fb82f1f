import type { SessionContext, TranscriptLog } from "./executor.ts";
/**
 * The record gate under the fence of one session. The first answer that says another owner has the conversation ends
 * the session at once, here and not in the engine: an engine may swallow or retry what its store throws.
 */
export declare function fencedTranscript(log: TranscriptLog, onLost: SessionContext["onLost"]): TranscriptLog;
