import { Code, ConnectError } from "@connectrpc/connect";
import { ERROR_CODES, isErrorCode, PlatformError } from "@signalbox/contract";
import { describe, expect, it } from "vitest";
import { fromConnectError, toConnectError } from "./rpc-errors.ts";

describe("RPC errors", () => {
  it("brings every code of the table over and back, with its detail", () => {
    for (const code of Object.keys(ERROR_CODES).filter(isErrorCode)) {
      const back = fromConnectError(toConnectError(new PlatformError(code, `about ${code}`)), "internal");
      expect([back.code, back.detail]).toEqual([code, `about ${code}`]);
    }
  });

  it("carries how long to wait", () => {
    const error = toConnectError(new PlatformError("provider_rate_limited", undefined, { retryAfterMs: 1_500 }));
    expect(error.code).toBe(Code.Unavailable);
    expect(fromConnectError(error, "internal").retryAfterMs).toBe(1_500);
    expect(fromConnectError(toConnectError(new PlatformError("internal")), "internal").retryAfterMs).toBeNull();
  });

  it("knows a message that is over a limit of the transport, which nobody retries", () => {
    const error = fromConnectError(new ConnectError("message size 5 is larger", Code.ResourceExhausted), "worker_lost");
    expect(error.code).toBe("payload_too_large");
    expect(error.facts.retryable).toBe(false);
    const full = toConnectError(new PlatformError("queue_full"));
    expect(fromConnectError(full, "worker_lost").code).toBe("queue_full");
  });

  it("takes anything without a code of ours for a peer that is not there", () => {
    expect(fromConnectError(new ConnectError("gone", Code.Unavailable), "worker_lost").code).toBe("worker_lost");
    expect(fromConnectError(new TypeError("what"), "transcript_not_durable").code).toBe("transcript_not_durable");
    const forged = new ConnectError("x", Code.Internal, { "signalbox-code": "no_such_code" });
    expect(fromConnectError(forged, "worker_lost").code).toBe("worker_lost");
  });
});
