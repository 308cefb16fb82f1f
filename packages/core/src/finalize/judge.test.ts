import { ERROR_CODES, makeId, type ErrorCode } from "@signalbox/contract";
import { describe, expect, it } from "vitest";
import type { Claim, Conclusion, Seal } from "../ports/ownership-record.ts";
import { endReason } from "./end-reason.ts";
import { judge } from "./judge.ts";

const ANSWER_ID = makeId("message", new Uint8Array(16));

const CONCLUSION: Conclusion = {
  generation: 1,
  ending: "done",
  answer: "forty-two",
  stopReason: "end_turn",
  leaf: "e9",
  servedModel: "one",
  rung: "native",
  error: null,
};

const SEAL: Seal = {
  leaf: "e9",
  digest: "d9",
  openModelCallCount: 0,
  openToolCallCount: 0,
  unknownToolCallCount: 0,
  cancelCause: null,
  strikes: false,
};

function judged(conclusion: Partial<Conclusion> = {}, seal: Partial<Seal> = {}) {
  // Judging looks at the conclusion and the seal; the claim only says whose they are.
  const claim = {} as Claim;
  return judge({
    claim,
    conclusion: { ...CONCLUSION, ...conclusion },
    seal: { ...SEAL, ...seal },
    answerId: ANSWER_ID,
  });
}

const failure = (code: ErrorCode): Partial<Conclusion> => ({ ending: "failed", error: { code, detail: "so it was" } });

describe("a finalization", () => {
  it("completes what passes every check, and goes on from the sealed leaf", () => {
    expect(judged()).toEqual({
      outcome: "completed",
      reason: "answered",
      error: null,
      answer: { messageId: ANSWER_ID, text: "forty-two", partial: false },
      rung: "native",
      servedModel: "one",
      continuity: "moved",
      leaf: "e9",
      digest: "d9",
    });
    expect(judged({ leaf: null }, { leaf: null, digest: null })).toMatchObject({
      outcome: "completed",
      continuity: "kept",
    });
  });

  it.each([
    {
      story: "an effect nobody can vouch for",
      conclusion: {},
      seal: { unknownToolCallCount: 1 },
      code: "outcome_unknown",
      reason: "outcome_unknown",
    },
    {
      story: "a tool call that is still open",
      conclusion: {},
      seal: { openToolCallCount: 1 },
      code: "outcome_unknown",
      reason: "outcome_unknown",
    },
    {
      story: "a model call that is still open",
      conclusion: {},
      seal: { openModelCallCount: 1 },
      code: "provider_stream_broken",
      reason: "provider_error",
    },
    {
      story: "a leaf that is not what the executor said",
      conclusion: { leaf: "e8" },
      seal: {},
      code: "transcript_not_durable",
      reason: "internal",
    },
    {
      story: "a transcript that the executor did not name",
      conclusion: { leaf: null },
      seal: {},
      code: "transcript_not_durable",
      reason: "internal",
    },
    { story: "no answer", conclusion: { answer: " \n" }, seal: {}, code: "answer_missing", reason: "provider_error" },
    { story: "a refusal", conclusion: { stopReason: "refusal" }, seal: {}, code: "refused", reason: "refused" },
    {
      story: "an engine that stopped by itself",
      conclusion: { ending: "interrupted" },
      seal: {},
      code: "engine_failed",
      reason: "internal",
    },
    {
      story: "an error, whatever else is well",
      conclusion: failure("provider_rate_limited"),
      seal: {},
      code: "provider_rate_limited",
      reason: "rate_limited",
    },
    {
      story: "an effect nobody can vouch for before any other error",
      conclusion: failure("provider_error"),
      seal: { unknownToolCallCount: 1 },
      code: "outcome_unknown",
      reason: "outcome_unknown",
    },
    {
      story: "a run that ran out of time",
      conclusion: failure("run_timeout"),
      seal: {},
      code: "run_timeout",
      reason: "timeout",
    },
  ] as const)("fails $story", ({ conclusion, seal, code, reason }) => {
    expect(judged(conclusion, seal)).toMatchObject({
      outcome: "failed",
      reason,
      error: { code, fault: ERROR_CODES[code].fault },
      answer: null,
      continuity: "kept",
      leaf: null,
    });
  });

  it("keeps an answer that ran out of room, marked, and its transcript if that agrees", () => {
    const cut = judged({ stopReason: "max_tokens" });
    expect(cut).toMatchObject({ outcome: "failed", reason: "output_truncated", continuity: "moved", leaf: "e9" });
    expect(cut.answer).toEqual({ messageId: ANSWER_ID, text: "forty-two", partial: true });
    expect(judged({ stopReason: "max_tokens", leaf: "e8" })).toMatchObject({ continuity: "broken", leaf: null });
  });

  it("a cancel that came before the seal wins over any success, and keeps the answer as partial", () => {
    const stopped = judged({}, { cancelCause: "user_cancel" });
    expect(stopped).toMatchObject({ outcome: "cancelled", reason: "user_cancel", error: null, continuity: "moved" });
    expect(stopped.answer).toEqual({ messageId: ANSWER_ID, text: "forty-two", partial: true });
    expect(judged(failure("provider_error"), { cancelCause: "user_cancel" }).outcome).toBe("cancelled");
  });

  it("a kept answer that the transcript does not have breaks the continuity, so the next turn is rebuilt", () => {
    const interrupted = { ending: "interrupted", leaf: null, answer: "forty" } as const;
    expect(judged(interrupted, { cancelCause: "user_cancel", leaf: "e3" })).toMatchObject({
      continuity: "broken",
      leaf: null,
    });
    const silent = { ...interrupted, answer: "" };
    expect(judged(silent, { cancelCause: "user_cancel", leaf: "e3" })).toMatchObject({
      continuity: "kept",
      answer: null,
    });
  });

  it("a gate that knew of a cancel which the seal does not show still ends it as cancelled", () => {
    expect(judged(failure("run_cancelled"))).toMatchObject({ outcome: "cancelled", reason: "user_cancel" });
  });

  it("a stop that a gate knew of before the run was marked ends it as stopped, and keeps the answer as partial", () => {
    const told = judged({ ...failure("run_stopped"), ending: "interrupted", answer: "forty" });
    expect(told).toMatchObject({ outcome: "cancelled", reason: "operator_stop", error: null });
    expect(told.answer).toEqual({ messageId: ANSWER_ID, text: "forty", partial: true });
  });

  it("has a reason for every code of the table", () => {
    for (const code of Object.keys(ERROR_CODES) as ErrorCode[]) expect(endReason(code)).toBeTypeOf("string");
  });
});
