import type { StepEvent } from "@signalbox/worker";
import type { StepFailure, TurnStop } from "./turn-outcome.ts";
import { TurnTranslation } from "./turn-translation.ts";

export interface TurnOptions {
  readonly newItemId: () => string;
  readonly emit: (event: StepEvent) => Promise<void> | void;
}

/** A turn while it runs: what has been said, why it is to stop, and when it is over. */
export class Turn {
  readonly translation: TurnTranslation;
  /** Resolves when the turn has ended. */
  readonly over: Promise<void>;
  /** The work of stopping it, once that has begun. */
  stopping: Promise<unknown> | null = null;
  readonly #emit: TurnOptions["emit"];
  readonly #end: () => void;
  #stop: TurnStop | null = null;
  #isReaderGone = false;

  constructor(options: TurnOptions) {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.translation = new TurnTranslation(options.newItemId);
    this.over = promise;
    this.#end = resolve;
    this.#emit = options.emit;
  }

  /** Why it is to stop. The first reason stays. */
  get stop(): TurnStop | null {
    return this.#stop;
  }

  stopFor(stop: TurnStop): void {
    this.#stop ??= stop;
  }

  fail(failure: StepFailure): void {
    this.stopFor({ kind: "failure", failure });
  }

  end(): void {
    this.#end();
  }

  /** Hands events out in order, no faster than they are taken. A reader that fails ends the turn. */
  async emitAll(events: readonly StepEvent[]): Promise<void> {
    for (const event of events) {
      if (this.#isReaderGone) {
        return;
      }
      try {
        await this.#emit(event);
      } catch {
        this.#isReaderGone = true;
        this.fail({ code: "internal", detail: "The events of the turn could not be delivered." });
      }
    }
  }
}
