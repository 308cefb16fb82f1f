import {
  AUDIT_ACTIONS,
  CONTAINMENT_GRADES,
  EFFECT_CLASSES,
  END_REASONS,
  ERROR_CODES,
  EVENT_SCHEMAS,
  HOLD_KINDS,
  HOLD_STATES,
  ID_PREFIX,
  OWNER_EVENT_TYPES,
  REVISIONS_PER_GENERATION,
  RUNGS,
  RUN_STATES,
  RUN_STATUSES,
  runStatus,
  STOP_KINDS,
  STOP_SCOPES,
  TOOL_CALL_STATES,
  WHEN_BUSY,
} from "@signalbox/contract";
import { expect, it } from "vitest";

// What others depend on, as literals. A red test asks: was this change meant? Then change it here too, and say so in
// changes/; a code, an event type or a state that clients know is never renamed.

/** HTTP status, gRPC status, whether retrying can help, whose fault it is. */
const CODES = {
  invalid_request: [400, "invalid_argument", false, "caller"],
  malformed_json: [400, "invalid_argument", false, "caller"],
  invalid_encoding: [400, "invalid_argument", false, "caller"],
  field_unknown: [400, "invalid_argument", false, "caller"],
  field_not_supported: [400, "invalid_argument", false, "caller"],
  invalid_cursor: [400, "invalid_argument", false, "caller"],
  cursor_expired: [410, "failed_precondition", false, "caller"],
  cursor_lost: [410, "failed_precondition", false, "caller"],
  unsupported_media_type: [415, "invalid_argument", false, "caller"],
  payload_too_large: [413, "resource_exhausted", false, "caller"],
  unauthenticated: [401, "unauthenticated", false, "caller"],
  permission_denied: [403, "permission_denied", false, "caller"],
  invalid_actor: [401, "unauthenticated", false, "caller"],
  not_found: [404, "not_found", false, "caller"],
  method_not_allowed: [405, "unimplemented", false, "caller"],
  agent_name_taken: [409, "already_exists", false, "caller"],
  conversation_busy: [409, "failed_precondition", false, "caller"],
  agent_disabled: [409, "failed_precondition", false, "caller"],
  conversation_deleting: [409, "failed_precondition", false, "caller"],
  revision_changed: [412, "failed_precondition", false, "caller"],
  search_too_broad: [422, "resource_exhausted", false, "caller"],
  idempotency_key_reused: [422, "invalid_argument", false, "caller"],
  runtime_unknown: [422, "failed_precondition", false, "caller"],
  runtime_constraint: [422, "failed_precondition", false, "caller"],
  model_unknown: [422, "failed_precondition", false, "caller"],
  tool_unknown: [422, "failed_precondition", false, "caller"],
  policy_changed: [409, "failed_precondition", false, "caller"],
  policy_invalid: [422, "invalid_argument", false, "caller"],
  queue_full: [429, "resource_exhausted", true, "caller"],
  message_rate_exceeded: [429, "resource_exhausted", true, "caller"],
  too_many_runs: [429, "resource_exhausted", true, "caller"],
  SDK_UNAVAILABLE: [422, "failed_precondition", false, "platform"],
  stale_generation: [410, "failed_precondition", false, "platform"],
  slot_unknown: [410, "unauthenticated", false, "platform"],
  run_cancelled: [410, "canceled", false, "policy"],
  model_not_granted: [403, "permission_denied", false, "policy"],
  tool_not_allowed: [403, "permission_denied", false, "policy"],
  tool_not_proposed: [403, "permission_denied", false, "policy"],
  tool_drifted: [403, "permission_denied", false, "policy"],
  tool_quarantined: [403, "permission_denied", false, "policy"],
  tool_arguments_invalid: [422, "invalid_argument", false, "policy"],
  tool_result_invalid: [502, "unavailable", false, "provider"],
  policy_denied: [403, "permission_denied", false, "policy"],
  policy_unavailable: [403, "permission_denied", false, "policy"],
  tool_outcome_unknown: [409, "failed_precondition", false, "policy"],
  tool_timeout: [504, "unavailable", false, "provider"],
  tool_upstream_failed: [502, "unavailable", false, "provider"],
  snapshot_mismatch: [400, "invalid_argument", false, "platform"],
  session_unknown: [404, "not_found", true, "platform"],
  transcript_corrupt: [500, "internal", false, "platform"],
  transcript_not_durable: [500, "internal", true, "platform"],
  answer_missing: [502, "unavailable", false, "provider"],
  provider_error: [502, "unavailable", false, "provider"],
  provider_failed: [502, "unavailable", true, "provider"],
  provider_overloaded: [503, "unavailable", true, "provider"],
  provider_rate_limited: [429, "unavailable", true, "provider"],
  provider_unreachable: [502, "unavailable", true, "provider"],
  provider_stream_broken: [502, "unavailable", true, "provider"],
  provider_timeout: [504, "unavailable", true, "provider"],
  output_truncated: [502, "unavailable", false, "provider"],
  refused: [502, "unavailable", false, "provider"],
  outcome_unknown: [500, "aborted", false, "platform"],
  retries_exhausted: [500, "aborted", false, "platform"],
  run_timeout: [504, "deadline_exceeded", false, "platform"],
  worker_lost: [503, "unavailable", true, "platform"],
  no_worker: [503, "unavailable", true, "platform"],
  engine_failed: [500, "internal", false, "platform"],
  database_unavailable: [503, "unavailable", true, "platform"],
  shutting_down: [503, "unavailable", true, "platform"],
  internal: [500, "internal", false, "platform"],
  approval_changed: [409, "failed_precondition", false, "caller"],
  approval_expired: [409, "failed_precondition", false, "policy"],
  approval_rejected: [403, "permission_denied", false, "policy"],
  hold_closed: [409, "failed_precondition", false, "caller"],
  command_refused: [409, "failed_precondition", false, "caller"],
  run_stopped: [410, "canceled", false, "policy"],
  run_suspended: [410, "failed_precondition", false, "policy"],
  address_refused: [422, "failed_precondition", false, "policy"],
  operator_stopped: [403, "permission_denied", false, "policy"],
};

it("pins the error table", () => {
  const facts = Object.fromEntries(
    Object.entries(ERROR_CODES).map(([code, { status, grpc, retryable, fault }]) => [
      code,
      [status, grpc, retryable, fault],
    ]),
  );
  expect(facts).toEqual(CODES);
});

it("pins the event types", () => {
  expect(Object.keys(EVENT_SCHEMAS).toSorted()).toEqual([
    "hold.decided",
    "hold.expired",
    "hold.opened",
    "hold.withdrawn",
    "queue.moved",
    "run.admitted",
    "run.finished",
    "run.phase",
    "run.recovered",
    "run.resumed",
    "run.started",
    "run.suspended",
    "text.completed",
    "text.delta",
    "text.retracted",
    "thinking.completed",
    "thinking.delta",
    "tool.finished",
    "tool.started",
    "turn.composed",
    "usage.recorded",
  ]);
});

it("pins which events only the owner writes", () => {
  expect([...OWNER_EVENT_TYPES].toSorted()).toEqual([
    "run.phase",
    "text.completed",
    "text.delta",
    "text.retracted",
    "thinking.completed",
    "thinking.delta",
    "turn.composed",
  ]);
});

it("pins the states of a run, and what clients see of them", () => {
  expect(Object.fromEntries(RUN_STATES.map((state) => [state, runStatus(state)]))).toEqual({
    queued: "queued",
    admitted: "running",
    running: "running",
    suspended: "waiting",
    finalizing: "running",
    completed: "completed",
    cancelled: "cancelled",
    failed: "failed",
    rolled_back: "rolled_back",
  });
  expect(RUN_STATUSES).toEqual(["queued", "running", "waiting", "completed", "failed", "cancelled", "rolled_back"]);
});

it("pins the closed lists of words", () => {
  expect(END_REASONS).toEqual([
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
  ]);
  expect(WHEN_BUSY).toEqual(["enqueue", "reject", "interrupt", "rollback", "steer"]);
  expect(RUNGS).toEqual(["fresh", "native", "repaired", "rebuilt"]);
  expect(EFFECT_CLASSES).toEqual(["read", "egress_read", "write", "irreversible"]);
  expect(CONTAINMENT_GRADES).toEqual(["contained", "mediated", "observed"]);
  expect(TOOL_CALL_STATES).toEqual([
    "proposed",
    "awaiting_approval",
    "authorized",
    "executing",
    "succeeded",
    "failed",
    "unknown",
    "denied",
    "withdrawn",
  ]);
  expect(HOLD_KINDS).toEqual([
    "approval",
    "input",
    "client_tool",
    "account",
    "budget",
    "job",
    "operator",
    "newer_worker",
  ]);
  expect(HOLD_STATES).toEqual(["open", "decided", "expired", "withdrawn"]);
  expect(STOP_KINDS).toEqual(["pause", "stop"]);
  expect(STOP_SCOPES).toEqual(["run", "conversation", "agent", "tenant"]);
  expect([...AUDIT_ACTIONS].toSorted()).toEqual([
    "agent_changed",
    "agent_created",
    "api_key_created",
    "approval_void",
    "conversation_changed",
    "conversation_created",
    "conversation_delete_requested",
    "conversation_deleted",
    "hold_decided",
    "hold_decision_refused",
    "hold_expired",
    "hold_opened",
    "hold_withdrawn",
    "incarnation_opened",
    "message_completed",
    "message_received",
    "model_called",
    "model_settled",
    "policy_activated",
    "policy_created",
    "run_admitted",
    "run_cancel_requested",
    "run_failed",
    "run_recovered",
    "run_released",
    "run_resumed",
    "run_retried",
    "run_started",
    "run_suspended",
    "stale_refused",
    "stop_created",
    "stop_lifted",
    "tool_called",
    "tool_denied",
    "tool_reconciled",
    "tool_settled",
    "transcript_adopted",
    "webhook_changed",
    "webhook_created",
    "webhook_deleted",
    "webhook_disabled",
    "webhook_secret_rotated",
  ]);
});

it("pins the prefixes of ids and the room of a generation", () => {
  expect(ID_PREFIX).toEqual({
    conversation: "cnv",
    run: "run",
    message: "msg",
    item: "itm",
    agent: "agt",
    hold: "hld",
    stop: "stp",
    policy: "pol",
    toolCall: "tc",
    gatewayCall: "gtc",
    modelCall: "mc",
    turn: "trn",
    request: "req",
    apiKey: "key",
    webhook: "whk",
    delivery: "dlv",
  });
  expect(REVISIONS_PER_GENERATION).toBe(1_048_576);
});
