/** What people decide about runs that exist: holds, pauses and stops, and commands on one run. */
import type {
  Actor,
  Decision,
  HoldId,
  ReconciledOutcome,
  RunId,
  StopId,
  StopKind,
  StopScope,
  ToolCallId,
} from "@signalbox/contract";

/** Whose things somebody may act on: the tenant's, narrowed to one end user when the caller speaks for one. */
export interface Authorised {
  readonly tenantId: string;
  readonly actor: Actor;
}

export interface DecideCommand extends Authorised {
  readonly holdId: HoldId;
  readonly decision: Decision;
  readonly response: unknown;
  readonly digest: string | null;
}

/** `ready`: a run can be claimed now that could not before. */
export interface HoldChange {
  readonly kind: "decided" | "already_decided" | "unchanged";
  readonly ready: boolean;
}

export interface StopCommand extends Authorised {
  readonly stopId: StopId;
  readonly kind: StopKind;
  readonly scope: StopScope;
  /** `null` for the tenant. */
  readonly subject: string | null;
  readonly reason: string | null;
}

export interface RunCommand extends Authorised {
  readonly runId: RunId;
}

/** What a person found out about a call whose outcome is not known. */
export interface ReconcileCommand extends Authorised {
  readonly toolCallId: ToolCallId;
  readonly outcome: ReconciledOutcome;
  /** The MCP result, when it is known. */
  readonly resultJson: string | null;
  readonly note: string | null;
}

export interface OperatorRecord {
  /**
   * Decides a hold, and wakes its run when nothing else keeps it, in one transaction. The first decision stands.
   * Errors: `not_found`, `hold_closed`, `approval_changed` (with the present `digest`).
   */
  decide(command: DecideCommand): Promise<HoldChange>;
  /** One that stands already is answered instead. Errors: `not_found`. */
  createStop(command: StopCommand): Promise<{ readonly stopId: StopId; readonly created: boolean }>;
  /** Errors: `not_found`. */
  liftStop(command: Authorised & { readonly stopId: StopId }): Promise<void>;
  /**
   * Carries out what stands: ends runs under a stop, decides holds of lifted pauses, expires what is overdue; each in a
   * transaction of its own. Answers how many rows changed; fewer than the limit means that nothing is left to do but
   * what failed, which the next sweep tries again.
   */
  carryOut(limit: number): Promise<number>;
  /** Errors: `not_found`, `command_refused`. */
  fail(command: RunCommand & { readonly force: boolean }): Promise<void>;
  /** Errors: `not_found`, `command_refused`. */
  release(command: RunCommand): Promise<void>;
  /** Settles an unknown outcome. Errors: `not_found`, `command_refused` when the outcome is known. */
  reconcile(command: ReconcileCommand): Promise<void>;
}
