/** The record as the request side sees it. Each method is one transaction; nothing is half recorded. */
import type { Actor, MessageId, PlatformEvent, RunId, RunState, Snapshot, WhenBusy } from "@signalbox/contract";
import type { Claim } from "./ownership-record.ts";

export interface IdempotencyKey {
  readonly key: string;
  /** SHA-256 (hex) of the canonical body, so that permuted keys are the same body. */
  readonly bodyHash: string;
}

export interface AdmitCommand {
  readonly tenantId: string;
  readonly conversationId: string;
  readonly messageId: MessageId;
  readonly runId: RunId;
  readonly actor: Actor;
  /** Well-formed text of the message; parts are already joined. */
  readonly text: string;
  readonly metadata: Readonly<Record<string, string>>;
  /**
   * What becomes of an active run and of this message. Its place in line it has in any case. `interrupt` and `rollback`
   * mark the active run to be ended; `steer` offers the message to it when nothing else waits.
   */
  readonly whenBusy: WhenBusy;
  /** Frozen configuration of the run. The record stores a snapshot it does not have yet. */
  readonly snapshot: Snapshot;
  readonly snapshotHash: string;
  /** What the caller asked for and what admission granted, shown on the run. */
  readonly requested: Readonly<Record<string, unknown>>;
  readonly granted: Readonly<Record<string, unknown>>;
  readonly traceId: string;
  readonly idempotency: IdempotencyKey | null;
  /** At most this many runs may wait behind the active one. */
  readonly queueLimit: number;
  /** At most this many messages a minute in one conversation. */
  readonly minuteLimit: number;
  /** At most about this many runs of one tenant may be open: waiting in line or being answered. */
  readonly tenantLimit: number;
  /** Runtimes whose engines can take in a message while they run. */
  readonly steerable: readonly string[];
  /**
   * This process's incarnation when its workers have room for the run's runtime: an admitted run is then claimed for
   * it in the same transaction. `null`: any supervisor may claim it; so it is when this incarnation is not alive.
   */
  readonly claimFor: number | null;
}

export interface Admission {
  readonly kind: "admitted" | "replayed";
  readonly messageId: MessageId;
  readonly runId: RunId;
  /** `started`: nobody is before it any more. `steered`: it waits, and is offered to the active run. */
  readonly accepted: "started" | "queued" | "steered";
  /** Number of runs before this one when it was accepted. */
  readonly position: number;
  /** Sequence before the first event of the run: where a reader starts. */
  readonly cursor: number;
  /** Set when the run was claimed for `claimFor` in this transaction. */
  readonly claim: Claim | null;
  /** What this transaction wrote to the log after `cursor`, in order; empty on a replay. */
  readonly events: readonly PlatformEvent[];
}

export interface CancelCommand {
  readonly tenantId: string;
  readonly runId: RunId;
  readonly actor: Actor;
}

export interface CancelOutcome {
  /**
   * `ended`: nobody had to be asked, and it is cancelled now. `requested`: its owner will end it. `ending`: too late, its
   * end is being decided, or its message was taken in by another run. `already_ended`: nothing changed.
   */
  readonly kind: "ended" | "requested" | "ending" | "already_ended";
  readonly state: RunState;
}

export interface AdmissionRecord {
  /**
   * Message, run, idempotency key, audit entry and events, or nothing. Locks the conversation's ownership row, so that
   * the order of acknowledgement is the order of positions.
   * Errors: `not_found`, `conversation_busy` (with `activeRunId`), `queue_full`, `message_rate_exceeded`,
   * `too_many_runs`, `idempotency_key_reused`.
   */
  admit(command: AdmitCommand): Promise<Admission>;
  /**
   * Marks the cancel, or ends a run that nobody owns (and admits the next). After it commits, no intent of the run
   * commits. Errors: `not_found`.
   */
  requestCancel(command: CancelCommand): Promise<CancelOutcome>;
}
