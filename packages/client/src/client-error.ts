/** What a call to the API ends with when it does not end well. */
import type { ErrorCode, Fault, FieldError, Problem } from "@signalbox/contract";

/**
 * A code of the error table; of this release, or of a newer platform's. Two more are the client's own: `unreachable`
 * (nothing answered, or the answer broke off) and `unreadable` (what answered does not speak this API, such as a proxy).
 */
export type ClientErrorCode = ErrorCode | "unreachable" | "unreadable" | (string & {});

/** What a `SignalboxError` is made of: a problem document, or one of the client's own codes. */
export interface SignalboxErrorFacts {
  readonly problem?: Problem;
  /** Default `unreachable`; not looked at when there is a problem document. */
  readonly code?: "unreachable" | "unreadable" | "unauthenticated";
  /** HTTP status; default 0, nothing answered. */
  readonly status?: number;
  readonly cause?: unknown;
  readonly retryAfterMs?: number | null;
}

/** Statuses of proxies and servers in trouble: asking again later may help, whatever the body says. */
const PASSING_STATUSES: ReadonlySet<number> = new Set([408, 425, 429, 500, 502, 503, 504]);

/** An error of the API, as its problem document says, or of the way there. Decide by `code` and `retryable`. */
export class SignalboxError extends Error {
  override readonly name = "SignalboxError";
  readonly code: ClientErrorCode;
  /** HTTP status; 0 when nothing answered. */
  readonly status: number;
  readonly fault: Fault;
  /** Whether the same request can succeed later without being changed. */
  readonly retryable: boolean;
  /** Names the request in the platform's log; `null` when the platform did not answer. */
  readonly requestId: string | null;
  /** What is wrong with which field. */
  readonly errors: readonly FieldError[];
  /** The whole problem document, or `null` when the API gave none. */
  readonly problem: Problem | null;
  /** How long the API asked to wait, or `null`. */
  readonly retryAfterMs: number | null;

  constructor(message: string, facts: SignalboxErrorFacts = {}) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    const problem = facts.problem ?? null;
    const code = facts.code ?? "unreachable";
    this.problem = problem;
    this.code = problem?.code ?? code;
    this.status = problem?.status ?? facts.status ?? 0;
    this.fault = problem?.fault ?? (code === "unauthenticated" ? "caller" : "platform");
    this.retryable = problem?.retryable ?? (code === "unreachable" || PASSING_STATUSES.has(this.status));
    this.requestId = problem?.requestId ?? null;
    this.errors = problem?.errors ?? [];
    this.retryAfterMs = facts.retryAfterMs ?? null;
  }
}
