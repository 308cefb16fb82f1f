/** Reads what came back from a turn. Judging whether it counts is finalization's business. */
import { ERROR_CODES, type ErrorCode, type Rung } from "@signalbox/contract";
import type { Claim, Conclusion } from "../ports/ownership-record.ts";
import type { StepResult } from "../ports/worker.ts";
import type { StopCause } from "./stops.ts";

/** What a session says when its generation is over: the record knows better than the worker whether that is so. */
const MAYBE_STALE: ReadonlySet<ErrorCode> = new Set(["slot_unknown", "stale_generation"]);

/** The session cannot go on, but the turn can: on another worker, under another generation. */
export function isSessionLost(code: ErrorCode): boolean {
  const { fault, retryable } = ERROR_CODES[code];
  return (fault === "platform" && retryable) || MAYBE_STALE.has(code);
}

/** Whether the worker gave up by itself: nobody here had asked it to stop. */
export function gaveUp(result: StepResult, cause: StopCause | null): boolean {
  if (cause !== null) {
    return false;
  }
  return result.outcome === "interrupted" || (result.error !== null && isSessionLost(result.error.code));
}

/** Whether nobody owns the run any more because it waits for a hold: its owner suspended it, or a gate did. */
export function isSuspended(result: StepResult, cause: StopCause | null): boolean {
  return cause === null && (result.outcome === "hold_required" || result.error?.code === "run_suspended");
}

export interface Outcome {
  readonly claim: Claim;
  readonly rung: Rung | null;
  readonly cause: StopCause | null;
  /** What the turn had said when it ended, for results that bring no answer. */
  readonly saidText: string;
}

export function concludeResult(result: StepResult, outcome: Outcome): Conclusion {
  const interrupted = result.outcome !== "done" && outcome.cause !== null;
  const error = interrupted ? (interruption(outcome.cause) ?? stopOf(result)) : errorOf(result);
  return {
    ...empty(outcome),
    ending: interrupted ? "interrupted" : error === null ? "done" : "failed",
    answer: interrupted && result.answer === "" ? outcome.saidText : result.answer,
    stopReason: result.stopReason,
    leaf: result.leaf,
    servedModel: result.servedModel === "" ? null : result.servedModel,
    error,
  };
}

/** The turn was stopped before a result came. */
export function concludeStopped(outcome: Outcome): Conclusion {
  return {
    ...empty(outcome),
    ending: "interrupted",
    answer: outcome.saidText,
    error: interruption(outcome.cause),
  };
}

export function concludeFailed(error: NonNullable<Conclusion["error"]>, outcome: Outcome): Conclusion {
  return { ...empty(outcome), ending: "failed", error };
}

/** A cancelled turn ends in order; one that ran out of time does not. */
function interruption(cause: StopCause | null): Conclusion["error"] {
  return cause === "timed_out" ? { code: "run_timeout", detail: "The run took longer than its limit." } : null;
}

/** A stop that stands need not have marked the run yet, so the record may not know why the turn ended. */
function stopOf({ error }: StepResult): Conclusion["error"] {
  return error?.code === "run_stopped" ? error : null;
}

function empty(outcome: Outcome): Conclusion {
  return {
    generation: outcome.claim.generation,
    ending: "failed",
    answer: "",
    stopReason: "",
    leaf: null,
    servedModel: null,
    rung: outcome.rung,
    error: null,
  };
}

function errorOf(result: StepResult): Conclusion["error"] {
  switch (result.outcome) {
    case "done":
    case "continue":
      return result.error;
    case "hold_required":
      return { code: "engine_failed", detail: "The engine asked for a hold and was stopped." };
    case "failed":
    case "interrupted":
      return result.error ?? { code: "engine_failed", detail: "The engine ended with an error that it did not name." };
  }
}
