/**
 * The one place where errors of the worker protocol and of the record gate are translated, in both directions. The
 * code of our table travels in the metadata; the gRPC status beside it is what a client that knows no Signalbox sees.
 */
import { Code, ConnectError } from "@connectrpc/connect";
import {
  CODE_HEADER,
  isErrorCode,
  PlatformError,
  RETRY_AFTER_HEADER,
  type ErrorCode,
  type GrpcStatus,
} from "@signalbox/contract";

const STATUS: Readonly<Record<GrpcStatus, Code>> = {
  invalid_argument: Code.InvalidArgument,
  not_found: Code.NotFound,
  already_exists: Code.AlreadyExists,
  permission_denied: Code.PermissionDenied,
  unauthenticated: Code.Unauthenticated,
  failed_precondition: Code.FailedPrecondition,
  aborted: Code.Aborted,
  resource_exhausted: Code.ResourceExhausted,
  unavailable: Code.Unavailable,
  deadline_exceeded: Code.DeadlineExceeded,
  unimplemented: Code.Unimplemented,
  internal: Code.Internal,
  canceled: Code.Canceled,
};

/** Our error as one of Connect: its code, and how long to wait if it says so, travel in the metadata. */
export function toConnectError(error: PlatformError): ConnectError {
  const metadata: Record<string, string> = { [CODE_HEADER]: error.code };
  if (error.retryAfterMs !== null) {
    metadata[RETRY_AFTER_HEADER] = String(error.retryAfterMs);
  }
  return new ConnectError(error.detail, STATUS[error.facts.grpc], metadata, undefined, error);
}

/**
 * What a peer answered, in our words. `unreachable` is the code for a peer that did not answer at all. A message that
 * is over a limit of the transport is `payload_too_large`, which nobody retries.
 */
export function fromConnectError(thrown: unknown, unreachable: ErrorCode): PlatformError {
  if (thrown instanceof PlatformError) {
    return thrown;
  }
  const error = ConnectError.from(thrown);
  const code = error.metadata.get(CODE_HEADER);
  if (code !== null && isErrorCode(code)) {
    const retryAfterMs = Number(error.metadata.get(RETRY_AFTER_HEADER) ?? Number.NaN);
    return new PlatformError(code, error.rawMessage, {
      cause: thrown,
      ...(Number.isFinite(retryAfterMs) ? { retryAfterMs } : {}),
    });
  }
  switch (error.code) {
    case Code.ResourceExhausted:
      return new PlatformError("payload_too_large", error.rawMessage, { cause: thrown });
    case Code.Unauthenticated:
      return new PlatformError("unauthenticated", undefined, { cause: thrown });
    case Code.InvalidArgument:
      return new PlatformError("invalid_request", error.rawMessage, { cause: thrown });
    case Code.Canceled:
    case Code.Unknown:
    case Code.DeadlineExceeded:
    case Code.NotFound:
    case Code.AlreadyExists:
    case Code.PermissionDenied:
    case Code.FailedPrecondition:
    case Code.Aborted:
    case Code.OutOfRange:
    case Code.Unimplemented:
    case Code.Internal:
    case Code.Unavailable:
    case Code.DataLoss:
      return new PlatformError(unreachable, undefined, { cause: thrown });
  }
}
