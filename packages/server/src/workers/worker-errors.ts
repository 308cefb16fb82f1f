/** Foreign errors of the worker protocol become ours here, by their code and never by their text. */
import { CODE_HEADER, isErrorCode, PlatformError, RETRY_AFTER_HEADER } from "@signalbox/contract";
import { Code, ConnectError } from "@connectrpc/connect";

export function fromConnect(thrown: unknown): PlatformError {
  if (thrown instanceof PlatformError) return thrown;
  const error = ConnectError.from(thrown);
  const code = error.metadata.get(CODE_HEADER);
  if (code !== null && isErrorCode(code)) {
    const retryAfterMs = Number(error.metadata.get(RETRY_AFTER_HEADER) ?? Number.NaN);
    const retry = Number.isFinite(retryAfterMs) ? { retryAfterMs } : {};
    return new PlatformError(code, error.rawMessage, { cause: thrown, ...retry });
  }
  if (error.code === Code.ResourceExhausted) {
    return new PlatformError("payload_too_large", "A message of the worker protocol was too large.", { cause: thrown });
  }
  const late = error.code === Code.DeadlineExceeded;
  return new PlatformError("worker_lost", late ? "The worker did not answer in time." : undefined, { cause: thrown });
}

/** What a connection says that is no more, as opposed to a worker that answers no, or not yet. */
const BROKEN: ReadonlySet<Code> = new Set([
  Code.Unavailable,
  Code.Aborted,
  // Streams that end with their connection; our own aborts come after the worker was given up.
  Code.Canceled,
  Code.Internal,
  Code.Unknown,
  Code.DataLoss,
]);

/** Whether nothing that waits on the same worker will be answered either. */
export function isConnectionLost(thrown: unknown): boolean {
  if (thrown instanceof PlatformError) return false;
  const error = ConnectError.from(thrown);
  return error.metadata.get(CODE_HEADER) === null && BROKEN.has(error.code);
}
