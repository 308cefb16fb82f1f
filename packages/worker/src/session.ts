/** One engine session of a conversation on this worker: its generation, its one running step and its end. */
import { PlatformError, type ErrorCode } from "@signalbox/contract";
import { settledWithin, type WorkerClock } from "./clock.ts";
import type { StepOutput } from "./event-queue.ts";
import type { CheckpointHeader, DeliveredInput, EngineSession, StepInput } from "./executor.ts";
import { DISPOSE_BOUND_MS, INTERRUPT_BOUND_MS } from "./limits.ts";
import type { WorkerLog } from "./log.ts";
import { RunningStep } from "./running-step.ts";

export interface WorkerSessionOptions {
  readonly conversationId: string;
  readonly generation: number;
  readonly runtime: string;
  readonly snapshotHash: string;
  /** SHA-256 (hex) of the slot token the engine holds. */
  readonly slotHash: string;
  readonly clock: WorkerClock;
  readonly log: WorkerLog;
  /** Called once, before the engine is disposed: the session is no longer there for new calls. */
  readonly onEnding: (session: WorkerSession) => void;
}

export class WorkerSession {
  readonly conversationId: string;
  readonly runtime: string;
  readonly snapshotHash: string;
  readonly slotHash: string;
  readonly openedAtMs: number;
  readonly #options: WorkerSessionOptions;
  #engine: EngineSession | null = null;
  #generation: number;
  #usedAtMs: number;
  #running: RunningStep | null = null;
  #lost: { readonly code: ErrorCode; readonly detail: string } | null = null;
  #ending: Promise<void> | null = null;

  constructor(options: WorkerSessionOptions) {
    this.#options = options;
    this.conversationId = options.conversationId;
    this.runtime = options.runtime;
    this.snapshotHash = options.snapshotHash;
    this.slotHash = options.slotHash;
    this.#generation = options.generation;
    this.openedAtMs = options.clock.monotonicMs();
    this.#usedAtMs = this.openedAtMs;
  }

  get generation(): number {
    return this.#generation;
  }

  get leaf(): string | null {
    return this.#engine?.leaf ?? null;
  }

  get stepping(): boolean {
    return this.#running !== null;
  }

  get ended(): boolean {
    return this.#ending !== null;
  }

  /** Since when nothing has been asked of the session. */
  get usedAtMs(): number {
    return this.#usedAtMs;
  }

  /** Takes the engine that was opened for this session; one that came too late is put away. */
  async adopt(engine: EngineSession): Promise<void> {
    this.#engine = engine;
    if (this.#lost !== null || this.ended) {
      await this.#dispose();
      throw new PlatformError(this.#lost?.code ?? "session_unknown", this.#lost?.detail);
    }
  }

  rebind(generation: number): void {
    this.#opened().rebind(generation);
    this.#generation = generation;
    this.#usedAtMs = this.#options.clock.monotonicMs();
  }

  /** Runs one step; ends after its one result. `readerGone` aborts when nobody reads any more. */
  async *step(input: StepInput, readerGone: AbortSignal): AsyncGenerator<StepOutput> {
    const engine = this.#opened();
    if (this.#running !== null) {
      throw new PlatformError("conversation_busy", "This session is running another step.");
    }
    const { clock, log } = this.#options;
    const step = new RunningStep({
      engine,
      input,
      clock,
      log,
      onUnfit: (why) => this.#inBackground(this.#endUnfit(why)),
    });
    this.#running = step;
    const work = step.run().finally(() => {
      this.#running = null;
      this.#usedAtMs = clock.monotonicMs();
    });
    const leave = (): void => {
      step.queue.abandon();
      this.#inBackground(step.interrupt("nobody reads the step any more"));
    };
    readerGone.addEventListener("abort", leave, { once: true });
    this.#inBackground(work);
    try {
      yield* step.queue;
    } finally {
      readerGone.removeEventListener("abort", leave);
      if (!step.queue.finished) {
        leave();
      }
    }
  }

  /** Asks the running step to stop; tells whether there was one. */
  interrupt(reason: string): boolean {
    const step = this.#running;
    if (step === null || step.queue.finished) {
      return false;
    }
    this.#inBackground(step.interrupt(reason));
    return true;
  }

  /** Hands a message to the running step; tells whether its engine took it. */
  deliver(input: DeliveredInput): boolean {
    const step = this.#running;
    return step !== null && !step.queue.finished && (this.#opened().deliver?.(input) ?? false);
  }

  checkpoint(): Promise<CheckpointHeader> {
    return this.#opened().checkpoint();
  }

  /** The session can no longer work. Its step fails with `code`, and it ends. `report` is for the log alone. */
  lose(code: ErrorCode, detail: string, report = ""): void {
    if (this.#lost !== null || this.ended) {
      return;
    }
    if (report !== "") {
      this.#options.log.warn("an engine was lost", { ...this.#facts(), code, report });
    }
    this.#lost = { code, detail };
    this.#running?.lose(code, detail);
    this.#inBackground(this.end(detail));
  }

  /** Stops the step, disposes the engine. Idempotent; every caller waits for the same end. Never rejects. */
  end(reason: string): Promise<void> {
    this.#ending ??= this.#end(reason);
    return this.#ending;
  }

  async #end(reason: string): Promise<void> {
    this.#options.onEnding(this);
    const step = this.#running;
    if (step !== null) {
      if (this.#lost === null) {
        await step.interrupt(reason);
      } else {
        await settledWithin(step.ended, INTERRUPT_BOUND_MS, this.#options.clock);
        step.cut(this.#lost.code, this.#lost.detail);
      }
    }
    await this.#dispose();
  }

  async #endUnfit(why: "threw" | "stuck"): Promise<void> {
    if (why === "stuck") {
      this.#options.log.warn("engine did not stop in time", this.#facts());
    }
    await this.end(why === "stuck" ? "the engine did not stop in time" : "the engine failed in a step");
  }

  async #dispose(): Promise<void> {
    const engine = this.#engine;
    this.#engine = null;
    if (engine === null) {
      return;
    }
    try {
      const disposed = Promise.resolve(engine[Symbol.asyncDispose]());
      if (await settledWithin(disposed, DISPOSE_BOUND_MS, this.#options.clock)) {
        await disposed;
      } else {
        this.#options.log.warn("engine is still not gone", this.#facts());
      }
    } catch (error) {
      this.#options.log.error("engine did not end cleanly", error, this.#facts());
    }
  }

  #opened(): EngineSession {
    if (this.#engine === null || this.ended) {
      throw new PlatformError("session_unknown");
    }
    return this.#engine;
  }

  #facts(): Readonly<Record<string, unknown>> {
    return { conversationId: this.conversationId, generation: this.#generation, runtime: this.runtime };
  }

  /** Work that nobody waits for here: it has its own bound and reports its own failures. */
  #inBackground(work: Promise<unknown>): void {
    work.catch((error: unknown) => this.#options.log.error("session work failed", error, this.#facts()));
  }
}
