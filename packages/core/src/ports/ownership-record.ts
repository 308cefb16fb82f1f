/**
 * The record as the run side sees it. Claiming gives an `Ownership`; every write of an owner goes through it and
 * carries its generation, so that no write can forget the fence. A write whose generation is no longer the current
 * one changes nothing and rejects with `stale_generation`.
 */
import type {
  Actor,
  ErrorObject,
  EndReason,
  HistoryEntry,
  MessageId,
  OwnerEvent,
  RunId,
  Rung,
  Snapshot,
  TerminalState,
  ToolCallState,
  TurnId,
  CancelCause,
  ErrorCode,
} from "@signalbox/contract";

/** A text or thinking item of this run that readers may still see from an earlier generation. */
export interface VisibleItem {
  readonly itemId: string;
  readonly kind: "text" | "thinking";
}

/** An item that was said to its end, and is still visible. */
export interface ClosedItem extends VisibleItem {
  readonly text: string;
}

/** What earlier generations of a run left to the present one. */
export interface Inheritance {
  /** Their calls that are still open at a live gate. While there are any, nothing is adopted. */
  readonly openCallCount: number;
  /** As in the claim, as things are now. */
  readonly outcomeUnknown: boolean;
  /** End of the transcript of this turn, now the present generation's; `null` when there is none, or none was wanted. */
  readonly leaf: string | null;
  readonly closedItems: readonly ClosedItem[];
}

/**
 * How the turn ended, as its owner saw it. The record keeps it with the seal, so that whoever takes over a sealed run
 * repeats this finalization and no other.
 */
export interface Conclusion {
  /** Generation that ran the turn: its transcript entries carry it, also when a later owner finishes. */
  readonly generation: number;
  readonly ending: "done" | "interrupted" | "failed";
  /** The answer, or what there was of it. */
  readonly answer: string;
  readonly stopReason: string;
  /** Last transcript entry as the executor reported it; `null` when it wrote none or could not be asked. */
  readonly leaf: string | null;
  readonly servedModel: string | null;
  readonly rung: Rung | null;
  readonly error: { readonly code: ErrorCode; readonly detail: string } | null;
}

/** A call of a tool that left for the world outside, as later turns are told of it. */
export interface PastCall {
  readonly name: string;
  /** The beginning of it. */
  readonly argumentsJson: string;
  readonly state: ToolCallState;
  /** The beginning of it; `null` when it has none. */
  readonly resultSummary: string | null;
}

/** A turn that was begun and ended without becoming part of the transcript. */
export interface MissedTurn {
  readonly text: string;
  readonly outcome: TerminalState;
  readonly reason: EndReason;
  readonly calls: readonly PastCall[];
}

/** A message of the history; a question comes with those calls of its turn that must not be forgotten. */
export interface PastMessage extends HistoryEntry {
  readonly calls: readonly PastCall[];
}

/** A message that is handed to a run while it is being answered. */
export interface SteeredMessage {
  readonly messageId: MessageId;
  readonly text: string;
}

/** What an owner may hand to the engine of a run it holds, in the order of acknowledgement. */
export interface SteeringOffer extends Held, SteeredMessage {}

/** What a process owns: a conversation at the generation it holds it under. */
export interface Held {
  readonly conversationId: string;
  readonly generation: number;
}

export interface Claim {
  readonly tenantId: string;
  readonly conversationId: string;
  readonly runId: RunId;
  readonly messageId: MessageId;
  readonly generation: number;
  /** 1 for the first owner of the run; grows with each takeover or change of worker. */
  readonly attempt: number;
  /** `ready`: nobody owned it, or its owner gave it back. `owner_lost`: taken over from a dead process. `worker_lost`: same owner, new worker. */
  readonly cause: "ready" | "owner_lost" | "worker_lost";
  readonly actor: Actor;
  readonly snapshot: Snapshot;
  readonly snapshotHash: string;
  readonly traceId: string;
  readonly text: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly acceptedAtMs: number;
  /** Database time at the claim, for the turn form. */
  readonly nowMs: number;
  /** Database time when the run started first (this claim's, unless it was owned before): its wall clock counts from here. */
  readonly startedAtMs: number;
  /** Age of the previous message of the person at the time of this one, or `null` when it is the first. */
  readonly lastUserMessageAgeMs: number | null;
  readonly lastUserSnippet: string | null;
  /** Last finalized transcript entry, or `null` when there is none. */
  readonly leaf: string | null;
  /** Whether anything was said before this run, answered or not (then a missing leaf means `rebuilt`). */
  readonly hasHistory: boolean;
  /** Turns of the history that the transcript up to `leaf` does not have, oldest first; empty without a leaf. */
  readonly missed: readonly MissedTurn[];
  readonly cancelRequested: boolean;
  /** Whether an earlier generation owned this run: then it may have left calls, items and a transcript. */
  readonly ownedBefore: boolean;
  readonly visibleItems: readonly VisibleItem[];
  /** Messages that an earlier attempt at this turn took in: they belong to it for good. */
  readonly takenIn: readonly SteeredMessage[];
  /**
   * True when a `write` or `irreversible` call of an earlier generation of this run is executing or unknown: the turn
   * must not run again.
   */
  readonly outcomeUnknown: boolean;
  /** Set when the run was taken over in `finalizing`: only the finalization is repeated, with this conclusion. */
  readonly sealed: Conclusion | null;
}

export interface ClaimRequest {
  readonly process: number;
  /** How many more runs of each runtime this supervisor's workers have room for. */
  readonly room: Readonly<Record<string, number>>;
  readonly limit: number;
}

export interface Seal {
  /** Last entry of the main stream appended under the conclusion's generation, or the old leaf when it appended none. */
  readonly leaf: string | null;
  /** Digest (hex) over the visible transcript up to `leaf`; `null` without a transcript. */
  readonly digest: string | null;
  /** Calls of this run that are still open at a gate. */
  readonly openModelCallCount: number;
  readonly openToolCallCount: number;
  /** Calls with an effect (`write`, `irreversible`) whose outcome is not known. */
  readonly unknownToolCallCount: number;
  /** Why the run is to end although its turn went on; `null` when nobody asked for that. */
  readonly cancelCause: CancelCause | null;
  /** The turn is to be struck, and can be: no call with an effect has left in it. */
  readonly strikes: boolean;
}

export interface Finalization {
  readonly outcome: TerminalState;
  readonly reason: EndReason;
  readonly error: ErrorObject | null;
  /** The answer as it enters the history; `null` when there is none to keep. */
  readonly answer: { readonly messageId: MessageId; readonly text: string; readonly partial: boolean } | null;
  readonly rung: Rung | null;
  /**
   * What becomes of the transcript. `moved`: the next turn continues from `leaf`; entries of other generations behind
   * the old leaf are cut, and on the rung `rebuilt` all entries of other generations. `kept`: the old leaf stays, this
   * run's entries are cut. `broken`: the history goes on without a transcript that agrees with it; everything is cut,
   * the leaf becomes `null`, and the next turn is `rebuilt`.
   */
  readonly continuity: "moved" | "kept" | "broken";
  /** Set when `moved`: the sealed leaf and digest; the record refuses to move to any other. */
  readonly leaf: string | null;
  readonly digest: string | null;
  readonly servedModel: string | null;
}

/** What became of an attempt to suspend a run. */
export type Suspension = "suspended" | "go_on" | "busy";

export interface Ownership {
  readonly claim: Claim;
  /**
   * Binds the slot to this run and generation; a slot that does not exist yet is created for the conversation.
   * From here on gates accept the slot.
   */
  bindSlot(slot: { readonly tokenHash: string; readonly workerId: string }): Promise<void>;
  /**
   * Appends owner events in order by group commit, under the turn they belong to. Resolves when they are durable.
   * A retry after a lost reply may write an event twice: readers fold by item and revision.
   */
  append(events: readonly OwnerEvent[], turnId: TurnId): Promise<void>;
  /**
   * The worker died: raises the generation under the same owner and unbinds the slot. Open proposals are withdrawn.
   * Rejects with `retries_exhausted` when the run has used up `attemptLimit`; the ownership stays valid then.
   */
  changeWorker(options: { readonly attemptLimit: number }): Promise<Ownership>;
  /**
   * What earlier generations left. With `adopt`, the transcript entries that the last of them appended behind the leaf
   * become this generation's, all at once; nothing that generation could still send is taken after that. Calls whose
   * gate is dead are closed. May be repeated, but not once a session was opened.
   */
  takeOver(options: { readonly adopt: boolean }): Promise<Inheritance>;
  /** Cuts the entries of this generation behind the leaf: what was adopted cannot be continued. */
  dropTail(): Promise<void>;
  /**
   * Closes the gates for the run (`finalizing`): no intent, no transcript entry, no cancel after it. May be repeated
   * while `finalizing`: answers with the facts as they are now and keeps the first conclusion.
   */
  seal(conclusion: Conclusion): Promise<Seal>;
  /**
   * Decides: terminal state, history, continuity, audit, `run.finished`, release of ownership and the admission of the
   * next queued message, in one transaction. Waits for appended events first.
   */
  finish(finalization: Finalization): Promise<{ readonly nextRunId: RunId | null }>;
  /**
   * The end of patience: a run with an open hold needs nobody any more (`suspended`), and this ownership is over.
   * `go_on`: nothing is open, or the run is to end. `busy`: a call of the run is still outside.
   */
  suspend(): Promise<Suspension>;
  /**
   * The engine took a message that was offered to it into its context: the end of this run is from now on the end of
   * that message's run. Changes nothing when it did already, or when the message was cancelled meanwhile.
   */
  takeIn(messageId: MessageId): Promise<void>;
  /**
   * Gives the run back (`running → admitted`) so that another supervisor claims it; used by drain. A run that is to end
   * is ended instead.
   */
  release(): Promise<void>;
  /** The conversation's history before this run, oldest first, for the rung `rebuilt`. */
  history(limit: number): Promise<readonly PastMessage[]>;
}

export interface OwnershipRecord {
  /** Claims ready conversations and takes over those of dead processes. Never blocks on a locked row. */
  claim(request: ClaimRequest): Promise<readonly Ownership[]>;
  /** The ownership for a claim made by admission in its own transaction. */
  adopt(claim: Claim): Ownership;
  /** Runs of this process whose cancel was requested. */
  cancelled(process: number): Promise<readonly Held[]>;
  /** Messages that may be handed to the running engines of this process; each until it is taken in or admitted. */
  steered(process: number): Promise<readonly SteeringOffer[]>;
  /**
   * Takes again, under a new generation, what the record says this process owns and `driving` does not list: the reply
   * to a claim, an admission or a change of worker was lost. Such claims have the cause `owner_lost`.
   */
  reclaim(process: number, driving: readonly Held[]): Promise<readonly Ownership[]>;
}

export interface ProcessRecord {
  /** Registers this process under a new incarnation, takes its presence lock and opens its lease. */
  register(roles: readonly string[]): Promise<{ readonly process: number; readonly leaseMs: number }>;
  /**
   * Renews the lease. Rejects with `stale_generation` when this process was declared dead meanwhile: it then owns
   * nothing any more.
   */
  heartbeat(process: number): Promise<void>;
  /**
   * Declares dead whose presence lock is free or whose lease ran out (database clock), closes the calls its gates left
   * open, and makes its conversations claimable. Returns how many processes it buried.
   */
  sweep(process: number): Promise<number>;
  /**
   * Orderly end: nothing is left to sweep. Whatever it still owns becomes claimable at once, as if it had been swept.
   */
  unregister(process: number): Promise<void>;
}
