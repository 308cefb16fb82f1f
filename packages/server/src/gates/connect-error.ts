/** Our errors on the Connect wire: the table's gRPC status for any client, and our code beside it for ours. */
import { Code, ConnectError } from "@connectrpc/connect";
import { codeFromString } from "@connectrpc/connect/protocol-connect";
import { CODE_HEADER, RETRY_AFTER_HEADER, type PlatformError } from "@signalbox/contract";

export function toConnectError(error: PlatformError): ConnectError {
  const metadata = new Headers({ [CODE_HEADER]: error.code });
  if (error.retryAfterMs !== null) metadata.set(RETRY_AFTER_HEADER, String(error.retryAfterMs));
  // The table spells gRPC statuses as Connect does.
  return new ConnectError(error.detail, codeFromString(error.facts.grpc) ?? Code.Unknown, metadata);
}
