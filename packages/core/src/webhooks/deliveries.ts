/**
 * Delivers what is owed to webhooks: looks for what is due, tells the receivers, notes what came of it. What is begun
 * and not noted is begun again, here or elsewhere, so that everything arrives at least once.
 */
import { LIMITS, type Limits } from "../kernel/limits.ts";
import type { CancelSource } from "../ports/clock.ts";
import type { DeliveryRecord, DeliverySender, DueDelivery } from "../ports/delivery-record.ts";
import { startLoop, type Loop, type LoopPorts } from "../supervise/loop.ts";
import { judgeAttempt } from "./attempt.ts";

export interface DeliveryPorts extends LoopPorts {
  readonly record: DeliveryRecord;
  readonly sender: DeliverySender;
}

export interface Deliveries extends AsyncDisposable {
  start(): void;
  /** Something happened that somebody may want to be told of. Cheap, and as often as it likes. */
  nudge(): void;
}

export function createDeliveries(ports: DeliveryPorts, limits: Limits = LIMITS): Deliveries {
  return new DeliveryLoop(ports, limits);
}

class DeliveryLoop implements Deliveries {
  readonly #ports: DeliveryPorts;
  readonly #limits: Limits;
  readonly #ending: CancelSource;
  /** Attempts under way, by webhook. */
  readonly #busy = new Map<string, number>();
  readonly #attempts = new Set<Promise<void>>();
  #loop: Loop | null = null;
  #wanted = true;
  #lookedAtMs = Number.NEGATIVE_INFINITY;

  constructor(ports: DeliveryPorts, limits: Limits) {
    this.#ports = ports;
    this.#limits = limits;
    this.#ending = ports.cancellation.source();
  }

  start(): void {
    const { limits, ports } = { limits: this.#limits, ports: this.#ports };
    this.#loop ??= startLoop({ name: "the deliveries", ports, limits, step: () => this.#look() });
  }

  nudge(): void {
    if (this.#wanted) this.#loop?.wake();
  }

  /** What is outside gets a moment to end; an attempt that is cut then does not count. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop?.stop();
    const all = Promise.all(this.#attempts);
    await Promise.race([all, this.#ports.clock.sleep(this.#limits.deliveryGraceMs)]);
    this.#ending.abort();
    await all;
  }

  async #look(): Promise<number> {
    const { clock, record } = this.#ports;
    const { deliveryParallelCount, deliveryGapMs, deliveryEveryMs } = this.#limits;
    const roomCount = deliveryParallelCount - this.#attempts.size;
    // An attempt that ends wakes this loop.
    if (roomCount <= 0) return deliveryEveryMs;
    const earlyMs = this.#lookedAtMs + deliveryGapMs - clock.monotonicMs();
    if (earlyMs > 0) return earlyMs;
    this.#lookedAtMs = clock.monotonicMs();
    const { due, wanted } = await record.begin({
      busy: [...this.#busy.keys()],
      limit: roomCount,
      each: this.#limits.deliveryEachCount,
      patienceMs: this.#limits.deliveryPatienceMs,
    });
    this.#wanted = wanted;
    for (const delivery of due) this.#begin(delivery);
    return due.length === roomCount ? deliveryGapMs : deliveryEveryMs;
  }

  #begin(delivery: DueDelivery): void {
    const { webhookId } = delivery;
    this.#busy.set(webhookId, (this.#busy.get(webhookId) ?? 0) + 1);
    const attempt = this.#attempt(delivery).finally(() => {
      const left = (this.#busy.get(webhookId) ?? 1) - 1;
      if (left > 0) this.#busy.set(webhookId, left);
      else this.#busy.delete(webhookId);
      this.#attempts.delete(attempt);
      this.#loop?.wake();
    });
    this.#attempts.add(attempt);
  }

  async #attempt(delivery: DueDelivery): Promise<void> {
    const { clock, randomness, record, sender, log } = this.#ports;
    const { deliveryId, webhookId, number, effort } = delivery;
    const beganAtMs = clock.monotonicMs();
    try {
      const result = await sender.send(delivery, this.#ending.signal);
      const judgement = judgeAttempt(result, { effort, fraction: randomness.fraction() });
      const { status, response } = result;
      const durationMs = Math.max(0, Math.round(clock.monotonicMs() - beganAtMs));
      await record.settle({ deliveryId, number, durationMs, status, response, ...judgement });
    } catch (thrown) {
      log.error("what a delivery came to could not be noted; it will be made again", thrown, { deliveryId, webhookId });
    }
  }
}
