/**
 * Claims what this process has room for, drives it, hears of cancels, takes over from the dead, and leaves in order.
 * It never trusts that it owns something: it owns what the record says under a generation, for as long as its own lease
 * holds. When a reply was lost, the record is asked again what this process owns (`doubt`).
 */
import { LIMITS, type Limits } from "../kernel/limits.ts";
import type { Reservation } from "../ports/handover.ts";
import type { Held, Ownership } from "../ports/ownership-record.ts";
import { startDrive, type Drive, type DriveEnd } from "./drive.ts";
import { startLoop, type Loop } from "./loop.ts";
import { Presence } from "./presence.ts";
import { createRoom, type Promised, type Room } from "./room.ts";
import type { Supervisor, SupervisorOptions, SupervisorPorts } from "./supervision.ts";
import { within } from "./within.ts";

export function createSupervisor(ports: SupervisorPorts, options: SupervisorOptions): Supervisor {
  return new RunSupervisor(ports, options);
}

class RunSupervisor implements Supervisor {
  readonly #ports: SupervisorPorts;
  readonly #limits: Limits;
  readonly #presence: Presence;
  readonly #room: Room;
  /** Drives by conversation; one that was overtaken by a newer claim only remains in `#ending`. */
  readonly #drives = new Map<string, Drive>();
  readonly #ending = new Set<Promise<void>>();
  #claiming: Loop | null = null;
  #others: readonly Loop[] = [];
  #doubt = false;
  /** Whether a run may be waiting for room: there was none for it when it was last looked or asked for. */
  #crowded = true;
  #draining: Promise<void> | null = null;

  constructor(ports: SupervisorPorts, options: SupervisorOptions) {
    this.#ports = ports;
    this.#limits = options.limits ?? LIMITS;
    this.#room = createRoom(ports.pool);
    this.#presence = new Presence({
      processes: ports.processes,
      ports,
      limits: this.#limits,
      roles: options.roles,
      onLapse: () => this.#halt("lapsed"),
      onHeld: () => this.wake(),
    });
  }

  async start(): Promise<void> {
    await this.#presence.start();
    const { cancelPollMs, sweepEveryMs } = this.#limits;
    this.#claiming = this.#loop("claiming", () => this.#claim());
    this.#others = [
      this.#loop("the cancel watch", () => this.#watchMarks().then(() => cancelPollMs)),
      this.#loop("the sweep", () => this.#sweep().then(() => sweepEveryMs)),
    ];
  }

  process(): number | null {
    return this.#presence.process();
  }

  wake(): void {
    this.#claiming?.wake();
    this.#others[0]?.wake();
  }

  roomGrew(): void {
    if (this.#crowded) {
      this.#claiming?.wake();
    }
  }

  driving(): readonly Held[] {
    return [...this.#drives.values()].map(({ conversationId, generation }) => ({ conversationId, generation }));
  }

  reserve(runtime: string): Reservation | null {
    const process = this.#presence.process();
    if (process === null || this.#draining !== null) {
      return null;
    }
    if ((this.#room.free()[runtime] ?? 0) === 0) {
      this.#crowded = true;
      return null;
    }
    const promised = this.#room.promise(runtime);
    const doubt = (): void => {
      promised.settle();
      this.#ask();
    };
    return {
      process,
      take: (claim) => {
        if (this.#presence.process() === process) this.#begin(this.#ports.record.adopt(claim), promised);
        else doubt();
      },
      free: () => promised.settle(),
      doubt,
    };
  }

  drain(): Promise<void> {
    this.#draining ??= this.#leave();
    return this.#draining;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.drain();
  }

  /** Each wait has a bound: a call that the record never answers must not keep a process from leaving. */
  async #leave(): Promise<void> {
    const { drainMs, haltWaitMs } = this.#limits;
    await within(this.#claiming?.stop() ?? Promise.resolve(), haltWaitMs, this.#ports);
    if (!(await within(this.#allEnded(), drainMs, this.#ports))) {
      this.#halt("drain");
      await within(this.#allEnded(), haltWaitMs, this.#ports);
    }
    await within(Promise.all(this.#others.map((loop) => loop.stop())), haltWaitMs, this.#ports);
    await within(this.#presence[Symbol.asyncDispose](), haltWaitMs, this.#ports);
  }

  async #claim(): Promise<number> {
    const { record } = this.#ports;
    const process = this.#presence.process();
    if (process === null) {
      return this.#limits.claimEveryMs;
    }
    if (this.#doubt) {
      this.#doubt = false;
      this.#beginAll(process, await this.#sure(record.reclaim(process, this.driving())));
    }
    const room = this.#room.free();
    const counts = Object.values(room);
    this.#crowded = counts.length === 0 || counts.includes(0);
    if (!counts.some((count) => count > 0)) {
      return this.#limits.claimEveryMs;
    }
    const claimed = await this.#sure(record.claim({ process, room, limit: this.#limits.claimCount }));
    this.#beginAll(process, claimed);
    // There may be more than one statement takes; looking again is bounded by the room.
    return claimed.length > 0 ? 0 : this.#limits.claimEveryMs;
  }

  /** When the answer does not come, the claim may have been made all the same. */
  async #sure<T>(answer: Promise<T>): Promise<T> {
    try {
      return await answer;
    } catch (thrown) {
      this.#doubt = true;
      throw thrown;
    }
  }

  /** What it got while it lost its lease is asked for anew once it has it again: until then no gate would serve it. */
  #beginAll(process: number, claimed: readonly Ownership[]): void {
    if (claimed.length > 0 && this.#presence.process() !== process) {
      this.#doubt = true;
      return;
    }
    for (const ownership of claimed) {
      this.#begin(ownership, this.#room.promise(ownership.claim.snapshot.runtime));
    }
  }

  #begin(ownership: Ownership, promised: Promised): void {
    const { conversationId, generation } = ownership.claim;
    const before = this.#drives.get(conversationId);
    if (before !== undefined && before.generation >= generation) {
      promised.settle();
      return;
    }
    before?.halt("lapsed");
    const drive = startDrive(ownership, {
      ports: this.#ports,
      limits: this.#limits,
      onSeated: () => promised.settle(),
    });
    this.#drives.set(conversationId, drive);
    if (this.#draining !== null) {
      drive.halt("drain");
    }
    const ending = drive.ended.then((end) => {
      promised.settle();
      this.#ending.delete(ending);
      this.#afterwards(drive, end);
    });
    this.#ending.add(ending);
  }

  #afterwards(drive: Drive, end: DriveEnd): void {
    if (this.#drives.get(drive.conversationId) === drive) {
      this.#drives.delete(drive.conversationId);
    }
    switch (end.kind) {
      case "finished":
        if (!end.nextIsReady) {
          this.roomGrew();
          return;
        }
        this.#ports.live.ringSupervisors();
        break;
      case "suspended":
        this.roomGrew();
        return;
      case "released":
        this.#ports.live.ringSupervisors();
        break;
      case "lost":
        this.#doubt = true;
        break;
    }
    this.#claiming?.wake();
  }

  /** What others left for the runs it drives: that they are to end, and messages for their engines. */
  async #watchMarks(): Promise<void> {
    const process = this.#presence.process();
    if (process === null || this.#drives.size === 0) {
      return;
    }
    for (const { conversationId, generation } of await this.#ports.record.cancelled(process)) {
      const drive = this.#drives.get(conversationId);
      if (drive?.generation === generation) {
        drive.cancel();
      }
    }
    const offers = Map.groupBy(await this.#ports.record.steered(process), (offer) => offer.conversationId);
    for (const [conversationId, messages] of offers) {
      const drive = this.#drives.get(conversationId);
      drive?.offer(messages.filter(({ generation }) => generation === drive.generation));
    }
  }

  async #sweep(): Promise<void> {
    const process = this.#presence.process();
    if (process === null) {
      return;
    }
    const buriedCount = await this.#ports.processes.sweep(process);
    if (buriedCount > 0) {
      this.#ports.log.warn("buried dead processes", { buriedCount });
      this.#ports.live.ringSupervisors();
      this.#claiming?.wake();
    }
  }

  #halt(reason: "lapsed" | "drain"): void {
    for (const drive of this.#drives.values()) {
      drive.halt(reason);
    }
  }

  #ask(): void {
    this.#doubt = true;
    this.#claiming?.wake();
  }

  async #allEnded(): Promise<void> {
    while (this.#ending.size > 0) {
      await Promise.all(this.#ending);
    }
  }

  #loop(name: string, step: () => Promise<number>): Loop {
    return startLoop({ name, ports: this.#ports, limits: this.#limits, step });
  }
}
