/**
 * The one place where errors of the worker protocol and of the record gate are translated, in both directions. The
 * code of our table travels in the metadata; the gRPC status beside it is what a client that knows no Signalbox sees.
 */
import { ConnectError } from "@connectrpc/connect";
import { PlatformError, type ErrorCode } from "@signalbox/contract";
export declare function toConnectError(error: PlatformError): ConnectError;
/**
 * What a peer answered, in our words. `unreachable` is the code for a peer that did not answer at all. A message that
 * is over a limit of the transport is `payload_too_large`, which nobody retries.
 */
export declare function fromConnectError(thrown: unknown, unreachable: ErrorCode): PlatformError;
