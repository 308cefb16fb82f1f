/** A worker pool whose one worker does what a test says, and remembers what was asked of it. */
import { PlatformError } from "@signalbox/contract";
import type {
  CancelSignal,
  Seat,
  SessionRequest,
  SteeredMessage,
  StepOutput,
  StepRequest,
  StepResult,
  WorkerEvent,
  WorkerPool,
} from "@signalbox/core";

/** A step the pool was asked for: `say` hands out an event, `signal` tells of its cancellation. */
export interface ScriptedStep {
  readonly request: StepRequest;
  readonly signal: CancelSignal;
  readonly say: (event: WorkerEvent) => void;
  readonly slotTokenHash: string;
}

/** What the one worker runs and does. It has room for one session at a time by default. */
export interface PoolScript {
  readonly runtime: string;
  readonly room?: number;
  /** Opens the session; rejects to say that it cannot. */
  readonly open?: (request: SessionRequest) => Promise<void>;
  /** Plays one step; a rejection is a lost worker's. */
  readonly step: (step: ScriptedStep) => Promise<StepResult>;
  /** Takes a message for the running step; refuses it by default. */
  readonly deliver?: (message: SteeredMessage) => Promise<boolean>;
}

/**
 * The pool, and what it was asked: sessions opened, steps played, reasons of terminated seats. A seat beyond its room
 * ends with `no_worker`.
 */
export class ScriptedPool implements WorkerPool {
  readonly opened: SessionRequest[] = [];
  readonly steps: StepRequest[] = [];
  readonly terminated: string[] = [];
  leftCount = 0;
  seatCount = 0;
  readonly #script: PoolScript;

  constructor(script: PoolScript) {
    this.#script = script;
  }

  room(): Readonly<Record<string, number>> {
    return { [this.#script.runtime]: (this.#script.room ?? 1) - (this.seatCount - this.leftCount) };
  }

  async seat(): Promise<Seat> {
    if ((this.room()[this.#script.runtime] ?? 0) <= 0) throw new PlatformError("no_worker");
    this.seatCount += 1;
    const slotTokenHash = String(this.seatCount).padStart(64, "0");
    return {
      workerId: "worker 1",
      slotTokenHash,
      open: async (request) => {
        this.opened.push(request);
        await this.#script.open?.(request);
      },
      step: (request, signal) => this.#play({ request, signal, slotTokenHash }),
      deliver: async (message) => (await this.#script.deliver?.(message)) ?? false,
      leave: () => (this.leftCount += 1),
      terminate: async (reason) => {
        this.terminated.push(reason);
      },
    };
  }

  async *#play(step: Omit<ScriptedStep, "say">): AsyncIterable<StepOutput> {
    this.steps.push(step.request);
    const said: StepOutput[] = [];
    let more = Promise.withResolvers<void>();
    const say = (event: WorkerEvent): void => {
      said.push({ kind: "event", event });
      more.resolve();
    };
    const played = this.#script.step({ ...step, say });
    const state: { result: StepResult | null } = { result: null };
    const ended = played.then((result) => {
      state.result = result;
    });
    for (;;) {
      await Promise.race([ended, more.promise]);
      more = Promise.withResolvers<void>();
      yield* said.splice(0);
      if (state.result !== null) {
        yield { kind: "result", result: state.result };
        return;
      }
    }
  }
}

/** The result of a step that answered. */
export function answered(answer: string, changes: Partial<StepResult> = {}): StepResult {
  return { outcome: "done", answer, stopReason: "end_turn", leaf: null, servedModel: "one", error: null, ...changes };
}
