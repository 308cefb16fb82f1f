/**
 * How a turn ended, in our words. The engine calls nearly every ending a success and tells failures apart by other
 * fields, so those are read here, in one place, and its wording is shown only where it is the answer of a gate.
 */
import type { SDKResultMessage } from "@anthropic-ai/claude-agent-sdk";
import { clip, ERROR_CODES, isErrorCode, wellFormed, type ErrorCode } from "@signalbox/contract";
import type { StepResult } from "@signalbox/worker";
import { LIMITS } from "./limits.ts";
import type { TurnFacts } from "./turn-translation.ts";

export interface StepFailure {
  readonly code: ErrorCode;
  readonly detail: string;
}

/** What this side did to the turn, if anything. The first thing done counts. */
export type TurnStop =
  | { readonly kind: "caller" }
  | { readonly kind: "truncated" }
  | { readonly kind: "failure"; readonly failure: StepFailure };

export interface TurnEnd {
  /** `null` when the process ended without one. */
  readonly result: SDKResultMessage | null;
  readonly facts: TurnFacts;
  readonly stop: TurnStop | null;
  readonly leaf: string | null;
}

export function stepResultOf(end: TurnEnd): StepResult {
  const { facts, stop, leaf } = end;
  const shared = { stopReason: facts.stopReason, servedModel: facts.servedModel, leaf, answer: facts.answer };
  if (stop?.kind === "caller") {
    return { ...shared, outcome: "interrupted", error: null };
  }
  const error = stop === null ? failureOf(end) : stopFailure(stop);
  if (error === null) {
    return { ...shared, outcome: "done", error };
  }
  return { ...shared, outcome: "failed", error, answer: error.code === "output_truncated" ? facts.answer : "" };
}

/** Whether what was said so far stays visible although the turn did not end by itself. */
export function keepsPartial(stop: TurnStop | null): boolean {
  return stop?.kind === "caller" || stop?.kind === "truncated";
}

function stopFailure(stop: Exclude<TurnStop, { readonly kind: "caller" }>): StepFailure {
  return stop.kind === "truncated" ? failure("output_truncated") : stop.failure;
}

function failureOf({ result, facts }: TurnEnd): StepFailure | null {
  if (result === null) {
    return failure("engine_failed");
  }
  if (result.stop_reason === "refusal" || facts.stopReason === "refusal") {
    return failure("refused");
  }
  if (result.subtype !== "success") {
    return result.subtype === "error_max_turns"
      ? failure("run_timeout", "The engine made more model calls than the run may make.")
      : failure("engine_failed");
  }
  if (result.is_error) {
    return reportedFailure(result, facts);
  }
  if (facts.errorKind !== "") {
    return failure("provider_error");
  }
  return facts.answer.trim() === "" ? failure("answer_missing") : null;
}

type Reported = Extract<SDKResultMessage, { readonly subtype: "success" }>;

function reportedFailure(result: Reported, facts: TurnFacts): StepFailure {
  const status = result.api_error_status ?? null;
  return failure(reportedCode(status, result, facts), isOfGate(status) ? gateAnswer(result.result) : undefined);
}

function reportedCode(status: number | null, result: Reported, facts: TurnFacts): ErrorCode {
  if (isErrorCode(facts.errorType)) {
    return facts.errorType;
  }
  return status === null ? codeWithoutStatus(result, facts) : codeOfStatus(status);
}

/** What a gate refused for good; other answers of a gate are tried again and say nothing a caller could use. */
function isOfGate(status: number | null): boolean {
  return status !== null && status >= 400 && status < 429;
}

/** For a gate that tells no code of ours: 401, 429 and 5xx were already tried again. */
function codeOfStatus(status: number): ErrorCode {
  if (status === 429) {
    return "provider_rate_limited";
  }
  if (status === 529) {
    return "provider_overloaded";
  }
  if (status === 504 || status === 408) {
    return "provider_timeout";
  }
  return STATUS_CODES.get(status) ?? (status >= 500 ? "provider_failed" : "provider_error");
}

const STATUS_CODES: ReadonlyMap<number, ErrorCode> = new Map([
  [404, "model_unknown"],
  [410, "stale_generation"],
  [413, "payload_too_large"],
]);

function codeWithoutStatus(result: Reported, facts: TurnFacts): ErrorCode {
  if (facts.errorKind === "max_output_tokens") {
    return "output_truncated";
  }
  if (result.terminal_reason === "prompt_too_long" || result.terminal_reason === "image_error") {
    return "payload_too_large";
  }
  if (facts.errorKind === "overloaded") {
    return "provider_overloaded";
  }
  if (facts.errorKind === "server_error") {
    return facts.wasCut ? "provider_stream_broken" : "provider_unreachable";
  }
  return "provider_error";
}

/** The engine's own words around it name variables and addresses of this machine. */
function gateAnswer(text: string): string | undefined {
  const answer = /API Error: \d{3} (.+)$/s.exec(text)?.[1];
  return answer === undefined ? undefined : clip(wellFormed(answer), LIMITS.detailLength);
}

function failure(code: ErrorCode, detail: string = ERROR_CODES[code].title): StepFailure {
  return { code, detail };
}
