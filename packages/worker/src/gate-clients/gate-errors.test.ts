import { describe, expect, it } from "vitest";
import { modelGateError, modelStreamError, readRetryAfter, toolGateError } from "./gate-errors.ts";

function body(type: string, message = "said"): string {
  return JSON.stringify({ type: "error", error: { type, message } });
}

describe("what a gate's refusal means", () => {
  it.each([
    [429, "rate_limit_error", "provider_rate_limited", true],
    [529, "overloaded_error", "provider_overloaded", true],
    [503, "api_error", "provider_overloaded", true],
    [500, "api_error", "provider_failed", true],
    [504, "timeout_error", "provider_timeout", true],
    [400, "invalid_request_error", "provider_error", false],
    [402, "overloaded_error", "provider_error", false],
    [412, "rate_limit_error", "provider_error", false],
    [403, "permission_error", "model_not_granted", false],
    [410, "invalid_request_error", "stale_generation", false],
    [413, "request_too_large", "payload_too_large", false],
  ] as const)("%i %s is %s", (...[status, type, code, retryable]) => {
    const error = modelGateError(status, {}, body(type));
    expect([error.code, error.facts.retryable, error.detail]).toEqual([code, retryable, "said"]);
  });

  it("believes our own code before anything else, in the header or in the body", () => {
    expect(modelGateError(410, { "signalbox-code": "run_cancelled" }, body("x")).code).toBe("run_cancelled");
    const inside = JSON.stringify({ error: { type: "x", code: "slot_unknown", message: "" } });
    expect(modelGateError(410, {}, inside).code).toBe("slot_unknown");
    expect(modelGateError(410, { "signalbox-code": "not_a_code" }, "<html>").code).toBe("stale_generation");
    const rpc = JSON.stringify({ jsonrpc: "2.0", id: 1, error: { message: "no", data: { code: "run_cancelled" } } });
    expect(toolGateError(410, {}, rpc).code).toBe("run_cancelled");
    expect(toolGateError(502, {}, "").code).toBe("tool_upstream_failed");
  });

  it("reads the error event of a stream", () => {
    expect(modelStreamError(JSON.parse(body("overloaded_error"))).code).toBe("provider_overloaded");
    expect(modelStreamError(JSON.parse(body("api_error"))).code).toBe("provider_failed");
    expect(modelStreamError({ type: "error" }).code).toBe("provider_error");
  });

  it("makes what a provider says fit to be shown", () => {
    const error = modelGateError(400, {}, body("x", `bad\u0000 ${"y".repeat(2_000)}`));
    expect(error.detail).toHaveLength(500);
    expect(error.detail.startsWith("bad\ufffd")).toBe(true);
  });
});

describe("how long to wait", () => {
  const nowMs = Date.parse("2026-01-01T00:00:00Z");

  it.each([
    [{ "retry-after": "2" }, 2_000],
    [{ "retry-after": "0.5" }, 500],
    [{ "retry-after": "Thu, 01 Jan 2026 00:00:07 GMT" }, 7_000],
    [{ "retry-after": "Wed, 31 Dec 2025 00:00:00 GMT" }, 0],
    [{ "retry-after": "abc", "retry-after-ms": "350" }, 350],
    [{ "signalbox-retry-after-ms": "120" }, 120],
    [{ "retry-after": "-1" }, null],
    [{ "retry-after": "garbage" }, null],
    [{}, null],
  ])("%j is %s", (headers, expected) => {
    expect(readRetryAfter(headers, nowMs)).toBe(expected);
  });
});
