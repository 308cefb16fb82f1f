/** Workers as the run side sees them: where there is room, and one session per conversation on one of them. */
import type { ErrorCode, HistoryEntry, Rung, Snapshot } from "@signalbox/contract";
import type { CancelSignal } from "./clock.ts";
import type { SteeredMessage } from "./ownership-record.ts";

export interface SessionRequest {
  readonly tenantId: string;
  readonly conversationId: string;
  readonly generation: number;
  readonly snapshot: Snapshot;
  readonly snapshotHash: string;
  readonly rung: Rung;
  /** On `repaired` the end of what an earlier generation left of the turn; else the last finalized entry. */
  readonly leaf: string | null;
  /** The last finalized entry, on `repaired`; `null` on every other rung. */
  readonly finalized: string | null;
  readonly history: readonly HistoryEntry[];
}

export type WorkerEvent =
  | {
      readonly type: "text.delta" | "thinking.delta";
      readonly itemId: string;
      readonly offset: number;
      readonly text: string;
    }
  | { readonly type: "text.completed" | "thinking.completed"; readonly itemId: string; readonly text: string }
  | { readonly type: "text.retracted"; readonly itemId: string; readonly cause: string }
  | { readonly type: "run.phase"; readonly phase: string }
  /** A message that was delivered into the running step is in the model's context now. */
  | { readonly type: "input.consumed"; readonly messageId: string };

export interface StepResult {
  readonly outcome: "done" | "continue" | "hold_required" | "failed" | "interrupted";
  readonly answer: string;
  readonly stopReason: string;
  readonly leaf: string | null;
  readonly servedModel: string;
  readonly error: { readonly code: ErrorCode; readonly detail: string } | null;
}

export type StepOutput =
  | { readonly kind: "event"; readonly event: WorkerEvent }
  | { readonly kind: "result"; readonly result: StepResult };

export interface StepRequest {
  readonly runId: string;
  readonly turnId: string;
  /** Parts of the user message; empty when the step continues the turn. */
  readonly parts: readonly string[];
  /** `null` for a message; else why the turn goes on after a step that ended with `continue`. */
  readonly continueReason: string | null;
  /** Set when the step goes on with a turn that an earlier generation left. */
  readonly recovery: Recovery | null;
}

/** Goes on with a turn whose message is in the transcript already. */
export interface Recovery {
  readonly reason: string;
  /** Closed items that readers still see: the worker takes back what the transcript does not have. */
  readonly shown: readonly { readonly itemId: string; readonly kind: "text" | "thinking"; readonly digest: string }[];
}

/**
 * A place on a worker, held for one conversation. The slot must be bound in the record before `open`. A seat may open
 * the session only with its first step; what `open` would have rejected with, that step rejects with before its first
 * output. A lost worker rejects every call with `worker_lost`.
 */
export interface Seat {
  readonly workerId: string;
  /** SHA-256 (hex) of the slot token this seat uses. */
  readonly slotTokenHash: string;
  open(request: SessionRequest): Promise<void>;
  /** Ends after exactly one result. `signal` interrupts the step, which still ends with a result. */
  step(request: StepRequest, signal: CancelSignal): AsyncIterable<StepOutput>;
  /**
   * Hands a message to the running step. False when the engine cannot take it, or not now; whether it did use it, an
   * event says.
   */
  deliver(message: SteeredMessage): Promise<boolean>;
  /** The turn is over; a warm session may stay for the next one. Called exactly once, also after `terminate`. */
  leave(): void;
  /** Ends session and engine. Idempotent; never rejects. */
  terminate(reason: string): Promise<void>;
}

export interface WorkerPool {
  /** Free steps by runtime, over all connected workers. */
  room(): Readonly<Record<string, number>>;
  /** Prefers the worker that already holds a session of this conversation. Rejects with `no_worker`. */
  seat(conversationId: string, runtime: string): Promise<Seat>;
}
