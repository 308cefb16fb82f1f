/**
 * What the platform offers as a whole: what this process offers itself, known at once, and what the others said within
 * the last second. An API without workers of its own judges agents by it.
 */
import type { RuntimeInfo } from "@signalbox/contract";
import { LIMITS, startLoop, type Log, type Loop } from "@signalbox/core";
import type { Offer, OfferRecord, ProviderOffer } from "../channels/truth/offer-record.ts";
import { systemCancellation, systemClock, systemRandomness } from "../system/ports.ts";

const EVERY_MS = 1_000;

export interface OffersOptions {
  readonly record: OfferRecord;
  /** What this process offers now. */
  readonly own: () => Offer;
  /** This process in the record; `null` when it is none, or not sure of it. */
  readonly process: () => number | null;
  readonly log: Log;
}

export class Offers implements AsyncDisposable {
  readonly #options: OffersOptions;
  #others: readonly Offer[] = [];
  #loop: Loop | null = null;

  constructor(options: OffersOptions) {
    this.#options = options;
  }

  /** Resolves when the others are known once. */
  async start(): Promise<void> {
    await this.#exchange();
    const ports = {
      clock: systemClock,
      cancellation: systemCancellation,
      randomness: systemRandomness,
      log: this.#options.log,
    };
    this.#loop = startLoop({
      name: "the exchange of offers",
      ports,
      limits: LIMITS,
      step: () => this.#exchange().then(() => EVERY_MS),
    });
  }

  /** What this process offers changed. */
  wake(): void {
    this.#loop?.wake();
  }

  runtimes(): readonly RuntimeInfo[] {
    return mergeRuntimes([this.#options.own(), ...this.#others].map((offer) => offer.runtimes));
  }

  providers(): readonly ProviderOffer[] {
    const byName = new Map<string, ProviderOffer>();
    for (const { providers } of [this.#options.own(), ...this.#others]) {
      for (const provider of providers) if (!byName.has(provider.name)) byName.set(provider.name, provider);
    }
    return [...byName.values()];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop?.stop();
  }

  async #exchange(): Promise<void> {
    const { record, own, process } = this.#options;
    const self = process();
    if (self !== null) await record.tell(self, own());
    this.#others = await record.others(self);
  }
}

/** One entry for each runtime: what an available one says of itself stands before what an unavailable one says. */
export function mergeRuntimes(offered: readonly (readonly RuntimeInfo[])[]): readonly RuntimeInfo[] {
  const byName = new Map<string, RuntimeInfo>();
  for (const runtime of offered.flat()) {
    const before = byName.get(runtime.name);
    if (before === undefined) {
      byName.set(runtime.name, runtime);
      continue;
    }
    const first = !before.available && runtime.available ? runtime : before;
    byName.set(runtime.name, {
      ...first,
      workers: before.workers + runtime.workers,
      room: before.room + runtime.room,
    });
  }
  return [...byName.values()].sort((left, right) => (left.name < right.name ? -1 : 1));
}
