import type { SDKResultMessage } from "@anthropic-ai/claude-agent-sdk";
import type { ErrorCode } from "@signalbox/contract";
import { describe, expect, test } from "vitest";
import { keepsPartial, stepResultOf, type TurnEnd } from "./turn-outcome.ts";

const FACTS = {
  answer: "Hello",
  stopReason: "end_turn",
  servedModel: "m",
  errorKind: "",
  errorType: "",
  wasCut: false,
};

/** The fields of the engine's result that are read, as it was seen to set them. */
const result = (fields: Readonly<Record<string, unknown>>): SDKResultMessage =>
  ({ type: "result", subtype: "success", is_error: false, result: "", stop_reason: "end_turn", ...fields }) as never;
const apiError = (status: number | null, text: string): SDKResultMessage =>
  result({
    is_error: true,
    terminal_reason: "api_error",
    api_error_status: status,
    result: text,
    stop_reason: "stop_sequence",
  });

const endOf = (end: Partial<TurnEnd>) => stepResultOf({ result: null, facts: FACTS, stop: null, leaf: "l", ...end });

test("a turn the model ended is done", () => {
  expect(endOf({ result: result({}) })).toEqual({
    outcome: "done",
    answer: "Hello",
    stopReason: "end_turn",
    servedModel: "m",
    leaf: "l",
    error: null,
  });
});

describe("what the engine calls a success", () => {
  const cases: readonly (readonly [string, TurnEnd["result"], Partial<typeof FACTS>, ErrorCode])[] = [
    ["a gate's 410", apiError(410, "API Error: 410 gone"), {}, "stale_generation"],
    [
      "a gate's code",
      apiError(403, "Failed to authenticate. API Error: 403 no"),
      { errorType: "model_not_granted" },
      "model_not_granted",
    ],
    ["a provider's 403", apiError(403, "API Error: 403 no"), { errorType: "permission_error" }, "provider_error"],
    ["a 404", apiError(404, "There's an issue with the selected model"), {}, "model_unknown"],
    ["a 413", apiError(413, "Request too large"), {}, "payload_too_large"],
    ["a 429", apiError(429, "API Error: Request rejected (429)"), {}, "provider_rate_limited"],
    ["a 529", apiError(529, "API Error: 529 over"), {}, "provider_overloaded"],
    ["a 504", apiError(504, "API Error: 504 late"), {}, "provider_timeout"],
    ["a 500", apiError(500, "API Error: 500 boom"), {}, "provider_failed"],
    [
      "a broken stream",
      apiError(null, "API Error: cut"),
      { errorKind: "server_error", wasCut: true },
      "provider_stream_broken",
    ],
    ["no connection", apiError(null, "API Error: refused"), { errorKind: "server_error" }, "provider_unreachable"],
    ["its length limit", apiError(null, "API Error: too long"), { errorKind: "max_output_tokens" }, "output_truncated"],
    ["an error in the answer's place", result({}), { errorKind: "unknown" }, "provider_error"],
    ["a refusal", result({ is_error: true, stop_reason: "refusal" }), {}, "refused"],
    ["nothing said", result({}), { answer: " \n" }, "answer_missing"],
  ];
  test.each(cases)("%s is a failure", (...[, ended, facts, code]) => {
    const step = endOf({ result: ended, facts: { ...FACTS, ...facts } });
    expect(step).toMatchObject({ outcome: "failed", error: { code } });
    expect(step.answer).toBe(code === "output_truncated" ? "Hello" : "");
  });
});

test("only what a gate answered is shown, never the engine's words around it", () => {
  const gate = endOf({ result: apiError(403, "Failed to authenticate. API Error: 403 Not granted.") });
  expect(gate.error?.detail).toBe("Not granted.");
  const provider = endOf({ result: apiError(500, "API Error: 500 check your inference gateway (127.0.0.1:1)") });
  expect(provider.error?.detail).toBe("The model provider failed inside.");
});

test("a process that ended without a result is a failure of the engine, a run with too many calls is at its limit", () => {
  expect(endOf({}).error?.code).toBe("engine_failed");
  expect(endOf({ result: result({ subtype: "error_max_turns" }) }).error?.code).toBe("run_timeout");
});

test("what this side did counts before what the engine says of it", () => {
  const aborted = result({ subtype: "error_during_execution", is_error: true, terminal_reason: "aborted_streaming" });
  expect(endOf({ result: aborted, stop: { kind: "caller" } })).toMatchObject({
    outcome: "interrupted",
    answer: "Hello",
    error: null,
  });
  expect(endOf({ result: aborted, stop: { kind: "truncated" } })).toMatchObject({
    outcome: "failed",
    answer: "Hello",
    error: { code: "output_truncated" },
  });
  const failure = { code: "transcript_not_durable", detail: "A row." } as const;
  expect(endOf({ result: result({}), stop: { kind: "failure", failure } })).toMatchObject({
    outcome: "failed",
    answer: "",
    error: failure,
  });
  expect([null, { kind: "caller" } as const, { kind: "truncated" } as const].map((stop) => keepsPartial(stop))).toEqual(
    [false, true, true],
  );
});
