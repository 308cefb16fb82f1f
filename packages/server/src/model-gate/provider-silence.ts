/** Notices when a provider has said nothing for too long, and only then. */
import type { Clock } from "@signalbox/core";

export interface SilenceOptions {
  /** Whether we ourselves do not listen at the moment, because the engine is slow. */
  readonly isHeldBack: () => boolean;
  readonly onSilent: () => void;
}

/** After the limit the sockets are looked at once more: what lies there when a process was held up is no silence. */
const LATE_MS = 20;

export class ProviderSilence implements AsyncDisposable {
  readonly #clock: Clock;
  readonly #options: SilenceOptions;
  readonly #stop = new AbortController();
  #watching: Promise<void> = Promise.resolve();
  #heardAtMs: number;

  constructor(clock: Clock, options: SilenceOptions) {
    this.#clock = clock;
    this.#options = options;
    this.#heardAtMs = clock.monotonicMs();
  }

  watch(limitMs: number): void {
    this.#watching = this.#watch(limitMs);
  }

  heard(): void {
    this.#heardAtMs = this.#clock.monotonicMs();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Without a reason an exception with its stack would be made.
    this.#stop.abort("done");
    await this.#watching;
  }

  async #watch(limitMs: number): Promise<void> {
    for (let isLate = false; ;) {
      if (this.#options.isHeldBack()) this.heard();
      const waitMs = this.#heardAtMs + limitMs - this.#clock.monotonicMs();
      if (waitMs <= 0 && isLate) break;
      isLate = waitMs <= 0;
      if ((await this.#clock.sleep(isLate ? LATE_MS : waitMs, this.#stop.signal)) === "aborted") return;
    }
    this.#options.onSilent();
  }
}
