/**
 * One class and one table. What an error means outside (HTTP, gRPC, retry, fault, text) is decided here by its
 * code and nowhere else.
 */

/** Whose doing an error is: what the caller sent, what a rule forbids, a provider, or the platform itself. */
export type Fault = "caller" | "policy" | "provider" | "platform";

/** Names of gRPC status codes, as Connect spells them on the wire. */
export type GrpcStatus =
  | "invalid_argument"
  | "not_found"
  | "already_exists"
  | "permission_denied"
  | "unauthenticated"
  | "failed_precondition"
  | "aborted"
  | "resource_exhausted"
  | "unavailable"
  | "deadline_exceeded"
  | "unimplemented"
  | "internal"
  | "canceled";

/** What one code means, on every boundary. */
export interface ErrorFacts {
  /** Of the HTTP answer. */
  readonly status: number;
  readonly grpc: GrpcStatus;
  /** Whether the same request can succeed later without being changed. */
  readonly retryable: boolean;
  readonly fault: Fault;
  /** Safe to show to anybody. */
  readonly title: string;
}

const factsOf =
  (fault: Fault) =>
  (status: number, grpc: GrpcStatus, title: string): ErrorFacts => ({ status, grpc, retryable: false, fault, title });

const caller = factsOf("caller");
const policy = factsOf("policy");
const platform = factsOf("platform");
const provider = (status: number, title: string): ErrorFacts => factsOf("provider")(status, "unavailable", title);
const passing = (facts: ErrorFacts): ErrorFacts => ({ ...facts, retryable: true });

/** Every error there is. A code is never renamed; clients know errors by it and never by the text. */
export const ERROR_CODES = {
  invalid_request: caller(400, "invalid_argument", "The request is not valid."),
  malformed_json: caller(400, "invalid_argument", "The body is not valid JSON."),
  invalid_encoding: caller(400, "invalid_argument", "The body is not valid UTF-8."),
  field_unknown: caller(400, "invalid_argument", "The request has a field that does not exist."),
  field_not_supported: caller(
    400,
    "invalid_argument",
    "The request uses a field that this release does not serve yet.",
  ),
  invalid_cursor: caller(400, "invalid_argument", "The cursor is not one of this list or stream."),
  cursor_expired: caller(410, "failed_precondition", "Events from this cursor on are no longer kept."),
  cursor_lost: caller(410, "failed_precondition", "The store was put back to before this cursor; begin again."),
  unsupported_media_type: caller(415, "invalid_argument", "The body must be application/json."),
  payload_too_large: caller(413, "resource_exhausted", "The request is too large."),
  unauthenticated: caller(401, "unauthenticated", "A valid API key is required."),
  permission_denied: caller(403, "permission_denied", "This key may not do that."),
  invalid_actor: caller(401, "unauthenticated", "The asserted actor is not valid."),
  not_found: caller(404, "not_found", "There is no such thing."),
  method_not_allowed: caller(405, "unimplemented", "This address does not take that method."),
  agent_name_taken: caller(409, "already_exists", "An agent of this name exists already."),
  conversation_busy: caller(409, "failed_precondition", "The conversation is answering another message."),
  approval_changed: caller(409, "failed_precondition", "What is asked has changed since it was shown."),
  hold_closed: caller(409, "failed_precondition", "Nothing waits for this hold any more."),
  command_refused: caller(409, "failed_precondition", "The command would not be safe now."),
  agent_disabled: caller(409, "failed_precondition", "The agent is disabled and takes no new messages."),
  conversation_deleting: caller(409, "failed_precondition", "The conversation is being deleted and takes no messages."),
  revision_changed: caller(412, "failed_precondition", "The agent is at another revision than the one named."),
  search_too_broad: caller(422, "resource_exhausted", "The search finds too much. Use longer or more words."),
  idempotency_key_reused: caller(
    422,
    "invalid_argument",
    "This idempotency key belongs to another request. Use a new key, or send what was sent first.",
  ),
  runtime_unknown: caller(422, "failed_precondition", "No connected worker offers this runtime."),
  runtime_constraint: caller(422, "failed_precondition", "The runtime cannot do what the agent asks for."),
  model_unknown: caller(422, "failed_precondition", "No provider is configured for this model."),
  tool_unknown: caller(422, "failed_precondition", "There is no tool of this name."),
  policy_changed: caller(409, "failed_precondition", "Another policy is in place than the one named."),
  policy_invalid: caller(422, "invalid_argument", "The policy is not valid."),
  queue_full: passing(caller(429, "resource_exhausted", "Too many messages are waiting in this conversation.")),
  message_rate_exceeded: passing(
    caller(429, "resource_exhausted", "This conversation is sent more messages a minute than it may be."),
  ),
  too_many_runs: passing(caller(429, "resource_exhausted", "Too many runs of this tenant are open.")),
  SDK_UNAVAILABLE: platform(422, "failed_precondition", "The Claude Agent SDK is not installed on a connected worker."),
  stale_generation: platform(410, "failed_precondition", "This owner no longer owns the conversation."),
  slot_unknown: platform(410, "unauthenticated", "This slot token is not bound to a run."),
  run_cancelled: policy(410, "canceled", "The run was cancelled."),
  run_stopped: policy(410, "canceled", "An operator has stopped the run."),
  run_suspended: policy(410, "failed_precondition", "The run waits for a decision and may do nothing meanwhile."),
  address_refused: policy(422, "failed_precondition", "This address may not be called from here."),
  operator_stopped: policy(403, "permission_denied", "An operator has stopped this; nothing new begins here."),
  model_not_granted: policy(403, "permission_denied", "The run was not granted this model."),
  tool_not_allowed: policy(403, "permission_denied", "The agent may not use this tool."),
  tool_not_proposed: policy(403, "permission_denied", "The model did not propose this call."),
  tool_drifted: policy(403, "permission_denied", "The tool changed since it was pinned."),
  tool_quarantined: policy(403, "permission_denied", "Nobody has approved this tool yet."),
  tool_arguments_invalid: policy(422, "invalid_argument", "The arguments do not fit the tool's schema."),
  tool_result_invalid: provider(502, "The tool's result does not fit the schema it declares."),
  policy_denied: policy(403, "permission_denied", "The policy does not allow this call."),
  policy_unavailable: policy(403, "permission_denied", "The policy could not be asked, so the call was refused."),
  approval_rejected: policy(403, "permission_denied", "A person refused this call."),
  approval_pending: passing(
    policy(409, "failed_precondition", "A person has not decided about this call yet; the same call again finds out."),
  ),
  approval_expired: policy(409, "failed_precondition", "Nobody approved this call in time, or its approval is over."),
  tool_outcome_unknown: policy(409, "failed_precondition", "The outcome of an earlier call of this run is not known."),
  client_tool_unanswered: provider(504, "No client carried out the call in time."),
  client_tool_refused: caller(409, "failed_precondition", "The client refused to carry out the call."),
  tool_input_required: provider(502, "The tool asks for input that cannot be given to it here."),
  tool_timeout: provider(504, "The tool did not answer in time."),
  tool_upstream_failed: provider(502, "The tool server could not be reached."),
  snapshot_mismatch: platform(400, "invalid_argument", "The snapshot does not match its hash."),
  session_unknown: passing(platform(404, "not_found", "The worker does not hold this session.")),
  transcript_corrupt: platform(500, "internal", "The transcript does not agree with its digest."),
  transcript_not_durable: passing(platform(500, "internal", "The transcript could not be made durable.")),
  answer_missing: provider(502, "The model ended without an answer."),
  provider_error: provider(502, "The model provider answered with an error."),
  provider_failed: passing(provider(502, "The model provider failed inside.")),
  provider_overloaded: passing(provider(503, "The model provider is overloaded.")),
  provider_rate_limited: passing(provider(429, "The model provider limits the rate.")),
  provider_unreachable: passing(provider(502, "The model provider could not be reached.")),
  provider_stream_broken: passing(provider(502, "The model provider's stream ended too early.")),
  provider_timeout: passing(provider(504, "The model provider did not answer in time.")),
  output_truncated: provider(502, "The model's answer was cut off at its length limit."),
  refused: provider(502, "The model refused to answer."),
  outcome_unknown: platform(
    500,
    "aborted",
    "A tool with an effect was running when its owner died; whether it took effect is not known.",
  ),
  retries_exhausted: platform(500, "aborted", "The run lost its worker too often."),
  run_timeout: platform(504, "deadline_exceeded", "The run took longer than its limit."),
  worker_lost: passing(platform(503, "unavailable", "The worker was lost.")),
  no_worker: passing(platform(503, "unavailable", "No worker has room for this runtime.")),
  engine_failed: platform(500, "internal", "The engine ended with an error."),
  database_unavailable: passing(platform(503, "unavailable", "The database cannot be reached.")),
  shutting_down: passing(platform(503, "unavailable", "The platform is shutting down.")),
  internal: platform(500, "internal", "Something failed inside the platform."),
} as const satisfies Record<string, ErrorFacts>;

/** A code of the table. */
export type ErrorCode = keyof typeof ERROR_CODES;

/** Whether `text` is a code of this release's table. */
export function isErrorCode(text: string): text is ErrorCode {
  return Object.hasOwn(ERROR_CODES, text);
}

/** What is wrong with one part of a request. */
export interface FieldError {
  /** JSON pointer into the request body, or the name of a header or parameter. */
  readonly pointer: string;
  readonly detail: string;
}

/** What an error may carry beside its code and detail. */
export interface PlatformErrorOptions {
  /** What was thrown first. Logged as a chain, never shown. */
  readonly cause?: unknown;
  readonly fields?: readonly FieldError[];
  /** Extra members for the problem object, such as `activeRunId`. */
  readonly extra?: Readonly<Record<string, unknown>>;
  /** How long to wait before trying again, when that is known. */
  readonly retryAfterMs?: number;
}

/**
 * Where a foreign protocol has no place for our code, it travels under this name: as a header of the gates' HTTP
 * answers and as metadata of RPC errors.
 */
export const CODE_HEADER = "signalbox-code";

/** How long to wait before trying again, in whole milliseconds, beside `CODE_HEADER`. */
export const RETRY_AFTER_HEADER = "signalbox-retry-after-ms";

/** The only error class that crosses a boundary. `detail` is shown to the caller and must be safe to show. */
export class PlatformError extends Error {
  override readonly name = "PlatformError";
  readonly code: ErrorCode;
  readonly detail: string;
  readonly fields: readonly FieldError[];
  readonly extra: Readonly<Record<string, unknown>>;
  readonly retryAfterMs: number | null;

  constructor(code: ErrorCode, detail?: string, options: PlatformErrorOptions = {}) {
    super(detail ?? ERROR_CODES[code].title, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.detail = detail ?? ERROR_CODES[code].title;
    this.fields = options.fields ?? [];
    this.extra = options.extra ?? {};
    this.retryAfterMs = options.retryAfterMs ?? null;
  }

  /** What the table says about the code. */
  get facts(): ErrorFacts {
    return ERROR_CODES[this.code];
  }
}

/** The same object over HTTP, in `run.finished` and in logs. */
export interface ErrorObject {
  readonly code: ErrorCode;
  readonly detail: string;
  readonly fault: Fault;
  readonly retryable: boolean;
}

/** What is told of an error inside another document. */
export function errorObject(error: PlatformError): ErrorObject {
  const facts = error.facts;
  return { code: error.code, detail: error.detail, fault: facts.fault, retryable: facts.retryable };
}

/** Anything thrown becomes a `PlatformError`; what nobody expected becomes `internal` with its cause kept. */
export function asPlatformError(thrown: unknown): PlatformError {
  return thrown instanceof PlatformError ? thrown : new PlatformError("internal", undefined, { cause: thrown });
}
