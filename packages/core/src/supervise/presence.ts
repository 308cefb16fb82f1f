/**
 * This process as the record knows it: an incarnation with a lease. The record judges by its own clock; this side gives
 * up earlier, on a clock that never goes back, counted from before each renewal was sent, by a timer that needs no
 * database. Whoever asks after that gets `null` and authorises nothing.
 */
import { asPlatformError } from "@signalbox/contract";
import type { Limits } from "../kernel/limits.ts";
import type { ProcessRecord } from "../ports/ownership-record.ts";
import { isLeaseHeld, leaseEndsAtMs, type Lease } from "../run/lease.ts";
import { startLoop, type Loop, type LoopPorts } from "./loop.ts";

export interface PresenceOptions {
  readonly processes: ProcessRecord;
  readonly ports: LoopPorts;
  readonly limits: Limits;
  readonly roles: readonly string[];
  /** The lease may be over: whatever this process drives must stop now. */
  readonly onLapse: () => void;
  /** The lease holds again, or holds under a new incarnation. */
  readonly onHeld: () => void;
}

interface Registration extends Lease {
  readonly process: number;
}

export class Presence implements AsyncDisposable {
  readonly #options: PresenceOptions;
  #registration: Registration | null = null;
  #lapsed = false;
  #loops: readonly Loop[] = [];

  constructor(options: PresenceOptions) {
    this.#options = options;
  }

  /** Registers and keeps the lease from now on. */
  async start(): Promise<void> {
    await this.#register();
    const { ports, limits } = this.#options;
    this.#loops = [
      startLoop({ name: "the heartbeat", ports, limits, step: () => this.#beat() }),
      startLoop({ name: "the lease watch", ports, limits, step: () => this.#watch() }),
    ];
  }

  process(): number | null {
    const registration = this.#registration;
    return registration !== null && this.#holds(registration) ? registration.process : null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.#loops.map((loop) => loop.stop()));
    const registration = this.#registration;
    this.#registration = null;
    if (registration === null) {
      return;
    }
    try {
      await this.#options.processes.unregister(registration.process);
    } catch (thrown) {
      this.#options.ports.log.error("this process could not unregister; its lease will run out", thrown);
    }
  }

  async #register(): Promise<void> {
    const sentAtMs = this.#options.ports.clock.monotonicMs();
    const { process, leaseMs } = await this.#options.processes.register(this.#options.roles);
    this.#renew({ process, leaseMs, sentAtMs });
    this.#options.ports.log.info("registered with the record", { process, leaseMs });
  }

  async #beat(): Promise<number> {
    const registration = this.#registration;
    if (registration === null) {
      await this.#register();
    } else {
      await this.#extend(registration);
    }
    return (this.#registration?.leaseMs ?? 0) / this.#options.limits.heartbeatsPerLease;
  }

  async #extend(registration: Registration): Promise<void> {
    const sentAtMs = this.#options.ports.clock.monotonicMs();
    try {
      await this.#options.processes.heartbeat(registration.process);
    } catch (thrown) {
      if (asPlatformError(thrown).code !== "stale_generation") {
        throw thrown;
      }
      this.#options.ports.log.warn("this process was declared dead; it begins anew", { process: registration.process });
      this.#registration = null;
      this.#lapse();
      await this.#register();
      return;
    }
    this.#renew({ ...registration, sentAtMs });
  }

  async #watch(): Promise<number> {
    const registration = this.#registration;
    if (registration !== null && !this.#holds(registration)) {
      this.#lapse();
    }
    const { ports, limits } = this.#options;
    const endsAtMs = registration === null ? 0 : leaseEndsAtMs(registration, limits.leaseMarginMs);
    return Math.max(endsAtMs - ports.clock.monotonicMs(), limits.loopRetryMs);
  }

  #renew(registration: Registration): void {
    this.#registration = registration;
    if (this.#lapsed && this.#holds(registration)) {
      this.#lapsed = false;
      this.#options.onHeld();
    }
  }

  #lapse(): void {
    if (!this.#lapsed) {
      this.#lapsed = true;
      this.#options.onLapse();
    }
  }

  #holds(registration: Registration): boolean {
    const { ports, limits } = this.#options;
    return isLeaseHeld(registration, ports.clock.monotonicMs(), limits.leaseMarginMs);
  }
}
