/**
 * The `model` node's work: one message from the model gate, told while it comes. A failed attempt is tried again by
 * its code; what a reader has seen of it is taken back first.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { PlatformError, type Snapshot } from "@signalbox/contract";
import type { ModelClient, ModelMessage } from "@signalbox/worker";
import { textOf, toolUsesOf, type Message } from "./message.ts";
import { requestBody, requestHead, type RequestHead } from "./model-request.ts";
import { RetryBudget } from "./retry.ts";
import type { StepScope } from "./step-scope.ts";

/** Stop reasons that say the answer is not whole. */
const CUT_OFF: ReadonlySet<string> = new Set(["max_tokens", "model_context_window_exceeded"]);

export class ModelCaller {
  readonly #client: ModelClient;
  readonly #model: string;
  readonly #head: RequestHead;

  constructor(client: ModelClient, snapshot: Snapshot) {
    this.#client = client;
    this.#model = snapshot.model;
    this.#head = requestHead(snapshot);
  }

  /** Rejects with what ends the run, or with the signal's reason. */
  async call(messages: readonly Message[], scope: StepScope, signal: AbortSignal): Promise<ModelMessage> {
    const body = requestBody(this.#head, messages, this.#model);
    const budget = new RetryBudget();
    for (;;) {
      const spoken = scope.newSpokenMessage();
      try {
        const message = await this.#client.send({ body, signal, onDelta: (delta) => spoken.say(delta) });
        assertAnswered(message);
        await spoken.complete();
        return message;
      } catch (thrown) {
        signal.throwIfAborted();
        const waitMs = thrown instanceof PlatformError ? budget.nextWaitMs(thrown) : null;
        if (!(thrown instanceof PlatformError) || waitMs === null) {
          throw thrown;
        }
        await spoken.retract(thrown.code);
        await scope.phases.enter("waiting_provider");
        await sleep(waitMs, undefined, { signal });
      }
    }
  }

  /** The message as the state keeps it. */
  stored(message: ModelMessage): Message {
    const { content, stopReason, servedModel } = message;
    return { role: "assistant", content, model: this.#model, stopReason, servedModel };
  }
}

export function isCutOff(message: ModelMessage): boolean {
  return CUT_OFF.has(message.stopReason);
}

/** A refusal and an empty answer are no messages to go on from, so they are not kept. */
function assertAnswered(message: ModelMessage): void {
  if (message.stopReason === "refusal") {
    throw new PlatformError("refused");
  }
  const empty = textOf(message.content).trim() === "" && toolUsesOf(message.content).length === 0;
  if (empty && !isCutOff(message)) {
    throw new PlatformError("answer_missing");
  }
}
