/**
 * The live channel informs and decides nothing. It may lose anything: every reader recovers from the record.
 */
import type { LiveDelta } from "@signalbox/contract";

export interface LiveChannel {
  publish(delta: LiveDelta): void;
  /** Rings after a commit: the conversation has newer rows than `sequence - 1`. Coalesced. */
  ring(conversationId: string, sequence: number): void;
  /** Rings the supervisors: something became claimable, or a cancel was marked. Coalesced. */
  ringSupervisors(): void;
}
