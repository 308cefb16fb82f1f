/** What a step comes to: the answer as the model gave it, or which of the errors thrown in the graph ended it. */
import { GraphRecursionError } from "@langchain/langgraph";
import { PlatformError, type Snapshot } from "@signalbox/contract";
import type { ModelMessage, StepResult } from "@signalbox/worker";
import { textOf, type Message } from "./message.ts";
import { isCutOff } from "./model-caller.ts";
import type { StepScope } from "./step-scope.ts";

export const NO_RESULT: StepResult = {
  outcome: "failed",
  answer: "",
  stopReason: "",
  leaf: null,
  servedModel: "",
  error: null,
};

export function answered(scope: StepScope): StepResult {
  const message = scope.answer;
  if (message === null) {
    throw new PlatformError("engine_failed", "The graph ended without an answer.");
  }
  const { stopReason, servedModel } = message;
  const answer = textOf(message.content);
  return isCutOff(message)
    ? {
        ...failed({ code: "output_truncated", detail: `The model stopped with ${stopReason}.` }, answer),
        stopReason,
        servedModel,
      }
    : { ...NO_RESULT, outcome: "done", answer, stopReason, servedModel };
}

/** An answer that is in the state already, as the model gave it. */
export function answerOf({ content, stopReason = "", servedModel = "" }: Message): ModelMessage {
  return { content: content.filter((block) => block.type !== "tool_result"), stopReason, servedModel };
}

export function failed(error: NonNullable<StepResult["error"]>, answer: string): StepResult {
  return { ...NO_RESULT, answer, error };
}

/** Whoever is refused with one of these owns the conversation no more. */
export const FENCED: ReadonlySet<string> = new Set(["stale_generation", "slot_unknown"]);

/** How gates say that people ended the run. */
const ENDED_BY_PEOPLE: ReadonlySet<string> = new Set(["run_cancelled", "run_stopped"]);

/** What a gate said when a cancel or a stop reached it before it reached this step: nobody here was asked to stop yet. */
export function cancelOf(thrown: unknown): StepResult["error"] {
  const error = firstPlatformError(thrown);
  return error !== null && ENDED_BY_PEOPLE.has(error.code) ? { code: error.code, detail: error.detail } : null;
}

/** Several calls may fail together; the run ends with the first reason. */
function firstPlatformError(thrown: unknown): PlatformError | null {
  if (thrown instanceof PlatformError) {
    return thrown;
  }
  const inner: readonly unknown[] = thrown instanceof AggregateError ? thrown.errors : [];
  return inner.find((each) => each instanceof PlatformError) ?? null;
}

/** The model gate counts calls as well and refuses the one too many by the same code. */
function tooManyCalls(thrown: unknown, { limits }: Snapshot): PlatformError | null {
  return thrown instanceof GraphRecursionError
    ? new PlatformError("run_timeout", `The run asked for more than ${limits.modelCallCount} model messages.`)
    : null;
}

/** What a run can end with, or `null` for an error nobody expected. */
export function errorOf(thrown: unknown, snapshot: Snapshot): PlatformError | null {
  return firstPlatformError(thrown) ?? tooManyCalls(thrown, snapshot);
}
