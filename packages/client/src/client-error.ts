/** What a call to the API ends with when it does not end well. */
import { isErrorCode, type ErrorCode, type Fault, type FieldError, type Problem } from "@signalbox/contract";

/**
 * An error of the API (then `code`, `status` and `requestId` are those of its problem document) or of the way there
 * (`code` is `unreachable`, `status` is 0).
 */
export class SignalboxError extends Error {
  override readonly name = "SignalboxError";
  readonly code: ErrorCode | "unreachable";
  readonly status: number;
  readonly fault: Fault;
  readonly retryable: boolean;
  readonly requestId: string | null;
  readonly errors: readonly FieldError[];
  /** The whole problem document, or `null` when the API could not be reached. */
  readonly problem: Problem | null;
  /** How long the API asked to wait, or `null`. */
  readonly retryAfterMs: number | null;

  constructor(
    message: string,
    facts: { problem?: Problem; status?: number; cause?: unknown; retryAfterMs?: number | null },
  ) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    const problem = facts.problem ?? null;
    this.problem = problem;
    this.code =
      problem !== null && isErrorCode(problem.code) ? problem.code : problem === null ? "unreachable" : "internal";
    this.status = problem?.status ?? facts.status ?? 0;
    this.fault = problem?.fault ?? "platform";
    this.retryable = problem?.retryable ?? true;
    this.requestId = problem?.requestId ?? null;
    this.errors = problem?.errors ?? [];
    this.retryAfterMs = facts.retryAfterMs ?? null;
  }
}
