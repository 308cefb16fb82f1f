/** Words of a run that leave the platform. The transition table itself is a decision and lives in `core/run`. */
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
export type RunState = (typeof RUN_STATES)[number];

export const TERMINAL_STATES = ["completed", "cancelled", "failed", "rolled_back"] as const;
export type TerminalState = (typeof TERMINAL_STATES)[number];

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

export function runStatus(state: RunState): RunStatus {
  return STATUS_OF[state];
}

export function isTerminal(state: RunState): state is TerminalState {
  return (TERMINAL_STATES as readonly RunState[]).includes(state);
}

export const WHEN_BUSY = ["enqueue", "reject", "interrupt", "rollback", "steer"] as const;
export type WhenBusy = (typeof WHEN_BUSY)[number];

/** How the transcript was found at the start of a turn (DESIGN §2, the resume ladder). `fresh`: there was none yet. */
export const RUNGS = ["fresh", "native", "repaired", "rebuilt"] as const;
export type Rung = (typeof RUNGS)[number];

export const EFFECT_CLASSES = ["read", "egress_read", "write", "irreversible"] as const;
export type EffectClass = (typeof EFFECT_CLASSES)[number];

export const CONTAINMENT_GRADES = ["contained", "mediated", "observed"] as const;
export type ContainmentGrade = (typeof CONTAINMENT_GRADES)[number];

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
export type ToolCallState = (typeof TOOL_CALL_STATES)[number];

export const MODEL_CALL_STATES = ["executing", "succeeded", "failed", "estimated"] as const;
export type ModelCallState = (typeof MODEL_CALL_STATES)[number];

/** Closed list of audit actions; grows with the capabilities. */
export const AUDIT_ACTIONS = [
  "agent_created",
  "api_key_created",
  "conversation_created",
  "message_received",
  "run_admitted",
  "run_started",
  "run_recovered",
  "run_cancel_requested",
  "message_completed",
  "model_called",
  "model_settled",
  "tool_called",
  "tool_settled",
  "tool_denied",
  "stale_refused",
] as const;
export type AuditAction = (typeof AUDIT_ACTIONS)[number];

/** Tokens by class; classes never overlap (`inputTokens` excludes cached ones). */
export interface Usage {
  readonly inputTokens: number;
  readonly outputTokens: number;
  readonly cacheReadTokens: number;
  readonly cacheWriteTokens: number;
}

export const NO_USAGE: Usage = { inputTokens: 0, outputTokens: 0, cacheReadTokens: 0, cacheWriteTokens: 0 };

/** Who asked, frozen into run, slot and audit. */
export interface Actor {
  readonly keyId: string;
  /** End user asserted by the product, or `null` for the key itself. */
  readonly user: string | null;
  readonly roles: readonly string[];
  readonly units: readonly string[];
}
