/** An error as a provider says it. It never leaves the server as an exception; each wire renders it in its own shape. */
export interface ErrorBody {
  /** Anthropic's word for the kind; the OpenAI wires translate it. */
  readonly type: string;
  readonly message: string;
}

export class WireError extends Error {
  override readonly name = "WireError";
  readonly status: number;
  readonly type: string;

  constructor(status: number, message: string, type: string = errorTypeOf(status)) {
    super(message);
    this.status = status;
    this.type = type;
  }
}

const TYPES: ReadonlyMap<number, string> = new Map([
  [400, "invalid_request_error"],
  [401, "authentication_error"],
  [402, "billing_error"],
  [403, "permission_error"],
  [404, "not_found_error"],
  [409, "conflict_error"],
  [413, "request_too_large"],
  [429, "rate_limit_error"],
  [500, "api_error"],
  [504, "timeout_error"],
  [529, "overloaded_error"],
]);

export function errorTypeOf(status: number): string {
  return TYPES.get(status) ?? (status < 500 ? "invalid_request_error" : "api_error");
}

/** The status a provider would have answered with, for an error that was scripted without one. */
export function statusOfType(type: string): number {
  for (const [status, name] of TYPES) {
    if (name === type) {
      return status;
    }
  }
  return 500;
}
