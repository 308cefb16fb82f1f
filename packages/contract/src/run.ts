/** States of a run inside the platform. The transition table itself is a decision and lives in `core/run`. */
export const RUN_STATES = [
  "queued",
  "admitted",
  "running",
  "suspended",
  "finalizing",
  "completed",
  "cancelled",
  "failed",
  "rolled_back",
] as const;
/** Where a run stands, as the platform and its operators see it. */
export type RunState = (typeof RUN_STATES)[number];

/** States in which a run has ended. They are final. */
export const TERMINAL_STATES = ["completed", "cancelled", "failed", "rolled_back"] as const;
/** How a run ended. */
export type TerminalState = (typeof TERMINAL_STATES)[number];

/** Why a run ended. A closed list: every ending has exactly one of these. */
export const END_REASONS = [
  "answered",
  "merged",
  "plan_complete",
  "user_cancel",
  "operator_stop",
  "superseded",
  "rate_limited",
  "provider_error",
  "budget_exhausted",
  "timeout",
  "stalled",
  "refused",
  "output_truncated",
  "policy_denied",
  "retries_exhausted",
  "outcome_unknown",
  "payload_too_large",
  "internal",
] as const;
/** Why a run ended. */
export type EndReason = (typeof END_REASONS)[number];

/** What clients see; `waiting` is our `suspended`, `admitted`/`finalizing` show as `running`. */
export const RUN_STATUSES = [
  "queued",
  "running",
  "waiting",
  "completed",
  "failed",
  "cancelled",
  "rolled_back",
] as const;
/** Where a run stands, as clients see it. */
export type RunStatus = (typeof RUN_STATUSES)[number];

const STATUS_OF: Readonly<Record<RunState, RunStatus>> = {
  queued: "queued",
  admitted: "running",
  running: "running",
  suspended: "waiting",
  finalizing: "running",
  completed: "completed",
  cancelled: "cancelled",
  failed: "failed",
  rolled_back: "rolled_back",
};

/** What clients see of a state. */
export function runStatus(state: RunState): RunStatus {
  return STATUS_OF[state];
}

/** Whether a run in this state has ended. */
export function isTerminal(state: RunState): state is TerminalState {
  return TERMINAL_STATES.some((terminal) => terminal === state);
}

/**
 * What a message does when it finds a run active: wait in line; be refused; end the run and keep what it said; end it and
 * strike its turn; or be handed to its engine. Its place in line it has in any case.
 */
export const WHEN_BUSY = ["enqueue", "reject", "interrupt", "rollback", "steer"] as const;
/** What happens to a message that finds a run active. */
export type WhenBusy = (typeof WHEN_BUSY)[number];
/** What a message does where neither it nor its agent says. */
export const DEFAULT_WHEN_BUSY: WhenBusy = "enqueue";

/** Reasons for which a run is ended from outside although its turn could go on. */
export const CANCEL_CAUSES = ["user_cancel", "superseded", "operator_stop"] as const satisfies readonly EndReason[];
/** Why a run was ended from outside. */
export type CancelCause = (typeof CANCEL_CAUSES)[number];

/**
 * How the transcript was found at the start of a turn: `fresh` (there was none yet), `native` (it continues as it
 * stood), `repaired` (a crashed tail was mended), `rebuilt` (a new session, seeded from the history).
 */
export const RUNGS = ["fresh", "native", "repaired", "rebuilt"] as const;
/** How a turn found the transcript it continues. */
export type Rung = (typeof RUNGS)[number];

/**
 * What is known of a tool's definition. `new`: listed and not judged yet. `quarantined`: nobody has approved it.
 * `approved`: it may be used as it is. `drifted`: it was approved in another form.
 */
export const PIN_STATES = ["new", "quarantined", "approved", "drifted"] as const;
/** What is known of a tool's definition. */
export type PinState = (typeof PIN_STATES)[number];

/** What a tool can do to the world, mildest first. A tool that nobody classified counts as `irreversible`. */
export const EFFECT_CLASSES = ["read", "egress_read", "write", "irreversible"] as const;
/** What a tool can do to the world. */
export type EffectClass = (typeof EFFECT_CLASSES)[number];

/** How much of an effect a gate governs: `contained` (the worker has neither credential nor route), `mediated` (asked
 * before, told after), `observed` (seen, not stopped). */
export const CONTAINMENT_GRADES = ["contained", "mediated", "observed"] as const;
/** How much of an effect a gate governs. */
export type ContainmentGrade = (typeof CONTAINMENT_GRADES)[number];

/** States of a tool call in the ledger. `unknown`: it was running when its gate died, and may have taken effect. */
export const TOOL_CALL_STATES = [
  "proposed",
  "awaiting_approval",
  "authorized",
  "executing",
  "succeeded",
  "failed",
  "unknown",
  "denied",
  "withdrawn",
] as const;
/** Where a tool call stands. */
export type ToolCallState = (typeof TOOL_CALL_STATES)[number];

/** States of a model call in the ledger. `estimated`: its gate died, and what it may have used is charged. */
export const MODEL_CALL_STATES = ["executing", "succeeded", "failed", "estimated"] as const;
/** Where a model call stands. */
export type ModelCallState = (typeof MODEL_CALL_STATES)[number];

/** What a person can find out about a call whose outcome is not known. */
export const RECONCILED_OUTCOMES = ["succeeded", "failed", "not_executed"] as const;
/** What a person found out about a call whose outcome was not known. */
export type ReconciledOutcome = (typeof RECONCILED_OUTCOMES)[number];

/** What a run may wait for. */
export const HOLD_KINDS = [
  "approval",
  "input",
  "client_tool",
  "account",
  "budget",
  "job",
  "operator",
  "newer_worker",
] as const;
/** What a run may wait for. */
export type HoldKind = (typeof HOLD_KINDS)[number];

/** Where a hold stands; all but `open` are final. `withdrawn`: its run ended first. */
export const HOLD_STATES = ["open", "decided", "expired", "withdrawn"] as const;
/** Where a hold stands. */
export type HoldState = (typeof HOLD_STATES)[number];

/** What an operator puts in the way of runs: they wait (`pause`), or they end and none begins (`stop`). */
export const STOP_KINDS = ["pause", "stop"] as const;
/** Whether runs wait or end. */
export type StopKind = (typeof STOP_KINDS)[number];

/** What a pause or a stop is about, narrowest first. */
export const STOP_SCOPES = ["run", "conversation", "agent", "tenant"] as const;
/** What a pause or a stop is about. */
export type StopScope = (typeof STOP_SCOPES)[number];

/** Closed list of audit actions; grows with the capabilities. */
export const AUDIT_ACTIONS = [
  "agent_created",
  "agent_changed",
  "api_key_created",
  "conversation_created",
  "conversation_changed",
  "conversation_delete_requested",
  "conversation_deleted",
  "message_received",
  "run_admitted",
  "run_started",
  "run_recovered",
  "transcript_adopted",
  "run_cancel_requested",
  "run_suspended",
  "run_resumed",
  "run_retried",
  "run_failed",
  "run_released",
  "hold_opened",
  "hold_decided",
  "hold_expired",
  "hold_withdrawn",
  "hold_decision_refused",
  "stop_created",
  "stop_lifted",
  "webhook_created",
  "webhook_changed",
  "webhook_secret_rotated",
  "webhook_disabled",
  "webhook_deleted",
  "policy_created",
  "policy_activated",
  "message_completed",
  "model_called",
  "model_settled",
  "tool_called",
  "tool_settled",
  "tool_denied",
  "tool_reconciled",
  "approval_void",
  "tool_pinned",
  "tool_quarantined",
  "tool_drifted",
  "tool_restored",
  "tool_approved",
  "tool_classified",
  "stale_refused",
  "incarnation_opened",
] as const;
/** What an entry of the audit says was done. */
export type AuditAction = (typeof AUDIT_ACTIONS)[number];

/** Tokens by class; classes never overlap (`inputTokens` excludes cached ones). */
export interface Usage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
}

/** What a call that used nothing used. */
export const NO_USAGE: Usage = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 };

/** Who asked, frozen into run, slot and audit. */
export interface Actor {
  readonly keyId: string;
  /** End user asserted by the product, or `null` for the key itself. */
  readonly user: string | null;
  readonly roles: readonly string[];
  readonly units: readonly string[];
}
