/** Foreign errors of the worker protocol become ours here, by their code and never by their text. */
import { isErrorCode, PlatformError } from "@signalbox/contract";
import { Code, ConnectError } from "@connectrpc/connect";

/** Metadata key that carries our code beside the gRPC status. */
export const CODE_METADATA = "signalbox-code";

export function fromConnect(thrown: unknown): PlatformError {
  if (thrown instanceof PlatformError) return thrown;
  const error = ConnectError.from(thrown);
  const code = error.metadata.get(CODE_METADATA);
  if (code !== null && isErrorCode(code)) return new PlatformError(code, error.rawMessage, { cause: thrown });
  if (error.code === Code.ResourceExhausted) {
    return new PlatformError("payload_too_large", "A message of the worker protocol was too large.", { cause: thrown });
  }
  return new PlatformError("worker_lost", undefined, { cause: thrown });
}
