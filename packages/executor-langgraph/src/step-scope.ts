/** What the nodes of the graph share during one step: whom to tell, when to stop, and what has been said. */
import type { ModelMessage } from "@signalbox/worker";
import { Phases, SpokenMessage, type Emit } from "./spoken-message.ts";

export class StepScope {
  readonly phases: Phases;
  readonly signal: AbortSignal;
  /** The message that ended the loop, once there is one. */
  answer: ModelMessage | null = null;
  /** The attempt at a model message that is being streamed now. */
  speaking: SpokenMessage | null = null;
  readonly #emit: Emit;
  readonly #newItemId: () => string;
  #closed = false;

  constructor(parts: { readonly emit: Emit; readonly signal: AbortSignal; readonly newItemId: () => string }) {
    this.signal = parts.signal;
    this.#emit = parts.emit;
    this.#newItemId = parts.newItemId;
    this.phases = new Phases((event) => this.emit(event));
  }

  /** Nothing is told after the step has its result: a node that was abandoned may still be on its way. */
  emit: Emit = (event) => (this.#closed ? undefined : this.#emit(event));

  newSpokenMessage(): SpokenMessage {
    this.speaking = new SpokenMessage({ emit: this.emit, phases: this.phases, newItemId: this.#newItemId });
    return this.speaking;
  }

  close(): void {
    this.#closed = true;
  }
}
