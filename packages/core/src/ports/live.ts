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
  /** Rings the gates: who may act in this conversation changed (a cancel, another owner, a release). Coalesced. */
  ringGates(conversationId: string): void;
}

/** The hearing side: what is said here and in other processes. Each `on…` returns what ends it. */
export interface LiveHearing {
  /** What is said about one conversation from now on. Close it, or leave its loop. */
  subscribe(conversationId: string): LiveSubscription;
  onSupervisorsRung(listener: () => void): () => void;
  /** With `null` when bells may have been lost: any conversation may have changed. */
  onGatesRung(listener: (conversationId: string | null) => void): () => void;
}

/** What one reader of a conversation is told. Deltas may be lost; a bell or `reread` means: look at the record. */
export type LiveSignal =
  | { readonly kind: "delta"; readonly delta: LiveDelta }
  /** The record has rows up to this sequence. */
  | { readonly kind: "bell"; readonly sequence: number }
  /** Something may have been missed: read the record from the last sequence that was seen. */
  | { readonly kind: "reread" };

/** One reader's signals. Iterate it once; it ends when it is closed. */
export interface LiveSubscription extends AsyncIterable<LiveSignal>, Disposable {
  close(): void;
}
