/** What the nodes of the graph share during one step: whom to tell, when to stop, and what has been said. */
import { PlatformError, wellFormed } from "@signalbox/contract";
import type { DeliveredInput, ModelMessage } from "@signalbox/worker";
import { userMessage, type Message } from "./message.ts";
import { Phases, SpokenMessage, type Emit } from "./spoken-message.ts";

export class StepScope {
  readonly phases: Phases;
  readonly signal: AbortSignal;
  /** The message that ended the loop, once there is one. */
  answer: ModelMessage | null = null;
  /** The attempt at a model message that is being streamed now. */
  speaking: SpokenMessage | null = null;
  /** Messages that came in while the step runs, until a model call takes them along. */
  readonly #inbox: DeliveredInput[] = [];
  /** What the model call in flight took along: it is not in the graph's state yet. */
  #takenAlong: readonly Message[] = [];
  readonly #emit: Emit;
  readonly #newItemId: () => string;
  readonly #stop = new AbortController();
  readonly #unfollow: () => void;
  readonly #begun = Promise.withResolvers<void>();
  #ahead: AskedAhead | null = null;
  #closed = false;

  constructor(parts: { readonly emit: Emit; readonly signal: AbortSignal; readonly newItemId: () => string }) {
    this.signal = this.#stop.signal;
    const follow = (): void => this.#stop.abort(parts.signal.reason);
    parts.signal.addEventListener("abort", follow, { once: true });
    this.#unfollow = () => parts.signal.removeEventListener("abort", follow);
    if (parts.signal.aborted) {
      follow();
    }
    this.#emit = parts.emit;
    this.#newItemId = parts.newItemId;
    this.phases = new Phases((event) => this.emit(event));
  }

  /** Nothing is told after the step has its result: a node that was abandoned may still be on its way. */
  emit: Emit = (event) => {
    if (this.#closed) {
      return undefined;
    }
    const told = this.#emit(event);
    this.#begun.resolve();
    return told;
  };

  /** False when no model call follows any more. */
  deliver(input: DeliveredInput): boolean {
    if (this.#closed || this.answer !== null || this.signal.aborted) {
      return false;
    }
    this.#inbox.push(input);
    return true;
  }

  /** Everything that came in, as messages of the model call that is about to be made. */
  async takeAlong(): Promise<readonly Message[]> {
    const inputs = this.#inbox.splice(0);
    this.#takenAlong = inputs.map((input) => userMessage(input.parts.map(wellFormed)));
    for (const { messageId } of inputs) {
      await this.emit({ type: "input.consumed", messageId });
    }
    return this.#takenAlong;
  }

  get takenAlong(): readonly Message[] {
    return this.#takenAlong;
  }

  /** The model call has ended: what it took along goes into the state with its message. */
  keepTaken(): void {
    this.#takenAlong = [];
  }

  newSpokenMessage(): SpokenMessage {
    this.speaking = new SpokenMessage({ emit: this.emit, phases: this.phases, newItemId: this.#newItemId });
    return this.speaking;
  }

  /**
   * Asks for the first message before the graph has got there: what it will ask with is known when the step begins.
   * Resolves when the first token has been told, or when there will be none, so that starting the graph, which keeps
   * the process busy for milliseconds, never stands before that token.
   */
  askAhead(messageCount: number, ask: () => Promise<ModelMessage>): Promise<void> {
    const message = ask();
    // Whoever takes it sees how it ended; when nobody does, the step has failed for another reason.
    message.catch(() => undefined).finally(() => this.#begun.resolve());
    this.#ahead = { messageCount, message };
    return this.#begun.promise;
  }

  /** The message that was asked ahead, for the first node run that wants one. */
  takeAhead(messageCount: number): Promise<ModelMessage> | null {
    const ahead = this.#ahead;
    if (ahead !== null && ahead.messageCount !== messageCount) {
      throw new PlatformError("engine_failed", "The graph's messages are not those the model was asked with.");
    }
    this.#ahead = null;
    return ahead?.message ?? null;
  }

  /** The step has its result: nothing is told any more, and nothing is still being asked. */
  close(): void {
    this.#closed = true;
    this.#unfollow();
    if (this.#ahead !== null) {
      // The graph ended before it took the message that is being asked for.
      this.#ahead = null;
      this.#stop.abort(new PlatformError("run_cancelled", "The step has ended."));
    }
  }
}

interface AskedAhead {
  readonly messageCount: number;
  readonly message: Promise<ModelMessage>;
}
