/** Carries a step's output from a worker to the process that drives it, in order. */
import { PlatformError } from "@signalbox/contract";
import { createBoundedQueue, type StepOutput } from "@signalbox/core";
import type { Network } from "./network.ts";
import type { Life } from "./scheduler.ts";

const CHANNEL_COUNT = 10_000;

export class StepChannel {
  readonly #network: Network;
  readonly #to: Life;
  readonly #arrived = createBoundedQueue<StepOutput>(CHANNEL_COUNT);
  #inFlight = createBoundedQueue<StepOutput>(CHANNEL_COUNT);
  #waiting: (() => void) | null = null;
  #broken = false;

  constructor(network: Network, to: Life) {
    this.#network = network;
    this.#to = to;
  }

  /** Whatever travels arrives in the order it was sent, though each message takes its own time. */
  send(output: StepOutput): void {
    this.#inFlight.offer(output);
    this.#network.send(this.#to, () => {
      const first = this.#inFlight.take();
      if (first !== undefined && !this.#broken) this.#arrived.offer(first);
      this.#wake();
    });
  }

  /** The connection is gone: nothing arrives any more, and the reader is told. */
  break(): void {
    this.#network.send(this.#to, () => {
      this.#broken = true;
      this.#wake();
    });
  }

  async next(): Promise<StepOutput> {
    for (;;) {
      const output = this.#arrived.take();
      if (output !== undefined) return output;
      if (this.#broken) throw new PlatformError("worker_lost");
      const arrival = Promise.withResolvers<void>();
      this.#waiting = arrival.resolve;
      await arrival.promise;
    }
  }

  #wake(): void {
    this.#waiting?.();
    this.#waiting = null;
  }
}
