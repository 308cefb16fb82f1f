/**
 * One step of an engine, from its start to its one result. Answerable for: exactly one result whatever the engine
 * does, well-formed bounded text, a reader that may be slow or vanish, and an interrupt that ends within its bound.
 */
import { asPlatformError, PlatformError, wellFormed, type ErrorCode } from "@signalbox/contract";
import { settledWithin, type WorkerClock } from "./clock.ts";
import { EventQueue } from "./event-queue.ts";
import type { EngineSession, StepEvent, StepInput, StepResult } from "./executor.ts";
import { INTERRUPT_BOUND_MS } from "./limits.ts";
import type { WorkerLog } from "./log.ts";
import { assertFits, StepText } from "./step-text.ts";

export interface RunningStepOptions {
  readonly engine: EngineSession;
  readonly input: StepInput;
  readonly clock: WorkerClock;
  readonly log: WorkerLog;
  /** The engine threw what nobody expected, or did not end within the bound after an interrupt: it cannot be trusted with another step. */
  readonly onUnfit: (why: "threw" | "stuck") => void;
}

export class RunningStep {
  readonly queue = new EventQueue();
  /** Settles when the step has its result, which the engine gave or the bound forced. Never rejects. */
  readonly ended: Promise<void>;
  readonly #options: RunningStepOptions;
  readonly #abort = new AbortController();
  readonly #text = new StepText();
  #lost: { readonly code: ErrorCode; readonly detail: string } | null = null;
  #markEnded: () => void = () => undefined;

  constructor(options: RunningStepOptions) {
    this.#options = options;
    this.ended = new Promise((resolve) => {
      this.#markEnded = resolve;
    });
  }

  /** Starts the engine. The promise settles when the engine has come back, however late. Never rejects. */
  async run(): Promise<void> {
    const { engine, input } = this.#options;
    let result: StepResult;
    try {
      result = await engine.step(input, (event) => this.#emit(event), this.#abort.signal);
    } catch (thrown) {
      this.#finish(this.#resultOf(thrown));
      if (asPlatformError(thrown).code === "internal") {
        this.#options.onUnfit("threw");
      }
      return;
    }
    try {
      this.#finish(this.#checked(result));
    } catch (thrown) {
      this.#finish(this.#resultOf(thrown));
    }
  }

  /** Asks the engine to stop, and ends the step for it when it does not. Repeated calls change nothing. */
  async interrupt(reason: string): Promise<void> {
    if (this.#abort.signal.aborted || this.queue.finished) {
      return this.ended;
    }
    this.#abort.abort(new PlatformError("run_cancelled", reason));
    this.queue.release();
    if (!(await settledWithin(this.ended, INTERRUPT_BOUND_MS, this.#options.clock))) {
      this.#finish(this.#interrupted());
      this.#options.onUnfit("stuck");
    }
  }

  /** The owner is stale or the engine is gone: whatever the engine still says, the step has failed with this. */
  lose(code: ErrorCode, detail: string): void {
    this.#lost ??= { code, detail };
    this.#abort.abort(new PlatformError(code, detail));
    this.queue.release();
  }

  /** Ends the step now, without waiting for the engine. */
  cut(code: ErrorCode, detail: string): void {
    this.lose(code, detail);
    this.#finish(this.#interrupted());
  }

  #emit(event: StepEvent): Promise<void> | undefined {
    if (this.queue.finished) {
      return undefined;
    }
    const clean = this.#text.accept(event);
    return clean === null ? undefined : this.queue.push(clean);
  }

  #checked(result: StepResult): StepResult {
    if (this.#lost !== null) {
      return this.#failed(this.#lost.code, this.#lost.detail);
    }
    assertFits(result.answer, "The answer");
    return { ...result, answer: wellFormed(result.answer) };
  }

  #resultOf(thrown: unknown): StepResult {
    if (this.#lost !== null) {
      return this.#failed(this.#lost.code, this.#lost.detail);
    }
    if (this.#abort.signal.aborted) {
      return this.#interrupted();
    }
    const error = asPlatformError(thrown);
    if (error.code === "internal") {
      this.#options.log.error("engine step threw", thrown, { runId: this.#options.input.runId });
      return this.#failed("engine_failed", "The engine ended with an error that it did not expect.");
    }
    return this.#failed(error.code, error.detail);
  }

  #interrupted(): StepResult {
    if (this.#lost !== null) {
      return this.#failed(this.#lost.code, this.#lost.detail);
    }
    return { ...NO_RESULT, outcome: "interrupted", answer: this.#text.partialAnswer, leaf: this.#options.engine.leaf };
  }

  #failed(code: ErrorCode, detail: string): StepResult {
    const answer = code === "payload_too_large" ? "" : this.#text.partialAnswer;
    return { ...NO_RESULT, outcome: "failed", answer, leaf: this.#options.engine.leaf, error: { code, detail } };
  }

  #finish(result: StepResult): void {
    this.queue.finish(result);
    this.#markEnded();
  }
}

const NO_RESULT: StepResult = {
  outcome: "failed",
  answer: "",
  stopReason: "",
  leaf: null,
  servedModel: "",
  error: null,
};
