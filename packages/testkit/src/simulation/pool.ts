/** The workers of one simulated process, as its supervisor sees them. */
import { createHash } from "node:crypto";
import { PlatformError } from "@signalbox/contract";
import type {
  Seat,
  SessionRequest,
  SteeredMessage,
  StepOutput,
  StepRequest,
  WorkerPool,
  CancelSignal,
  Randomness,
} from "@signalbox/core";
import type { Faults } from "./faults.ts";
import type { Network } from "./network.ts";
import type { Life, Scheduler } from "./scheduler.ts";
import { StepChannel } from "./step-channel.ts";
import type { SimSession, SimWorker } from "./worker.ts";

export interface PoolOptions {
  readonly life: Life;
  readonly network: Network;
  readonly scheduler: Scheduler;
  readonly faults: Faults;
  readonly randomness: Randomness;
  readonly roomPerWorker: number;
  readonly onRoom: (cause: "worker" | "seat") => void;
}

interface Connected {
  readonly worker: SimWorker;
  readonly channels: Set<StepChannel>;
  seatCount: number;
  lost: boolean;
}

/** A dead worker is noticed after missed heartbeats, a broken connection at once. */
const DETECTION_MS = 3_000;

export class SimPool implements WorkerPool {
  readonly #options: PoolOptions;
  #connected: Connected[] = [];

  constructor(options: PoolOptions) {
    this.#options = options;
  }

  connect(worker: SimWorker): void {
    this.#connected.push({ worker, channels: new Set(), seatCount: 0, lost: false });
    this.#options.onRoom("worker");
  }

  /** The supervisor hears nothing of this worker any more, whatever the worker itself thinks. */
  lose(worker: SimWorker, how: "died" | "cut_off"): void {
    const { scheduler, life } = this.#options;
    const afterMs = how === "died" ? DETECTION_MS : 0;
    scheduler.after(afterMs, life, () => {
      for (const each of this.#connected.filter((connected) => connected.worker === worker)) {
        each.lost = true;
        for (const channel of each.channels) channel.break();
      }
      this.#connected = this.#connected.filter((connected) => connected.worker !== worker);
    });
  }

  room(): Readonly<Record<string, number>> {
    const free = this.#connected.reduce((sum, each) => sum + this.#options.roomPerWorker - each.seatCount, 0);
    return { langgraph: free };
  }

  async seat(): Promise<Seat> {
    const connected = this.#connected.find((each) => each.seatCount < this.#options.roomPerWorker);
    if (connected === undefined) throw new PlatformError("no_worker");
    connected.seatCount += 1;
    const token = Buffer.from(this.#options.randomness.bytes(32)).toString("base64url");
    return new SimSeat(connected, createHash("sha256").update(token).digest("hex"), this.#options);
  }
}

class SimSeat implements Seat {
  readonly workerId: string;
  readonly slotTokenHash: string;
  readonly #connected: Connected;
  readonly #options: PoolOptions;
  #session: SimSession | null = null;

  constructor(connected: Connected, slotTokenHash: string, options: PoolOptions) {
    this.workerId = connected.worker.life.name;
    this.slotTokenHash = slotTokenHash;
    this.#connected = connected;
    this.#options = options;
  }

  async open(request: SessionRequest): Promise<void> {
    const { network, life } = this.#options;
    const { worker } = this.#connected;
    const opened = network.between(life, worker.life, () => worker.open(request, this.slotTokenHash));
    this.#session = await this.#unlessLost(opened);
  }

  async *step(request: StepRequest, signal: CancelSignal): AsyncIterable<StepOutput> {
    const session = this.#session;
    if (session === null || this.#connected.lost) throw new PlatformError("worker_lost");
    const { network, life, faults } = this.#options;
    const { worker, channels } = this.#connected;
    const channel = new StepChannel(network, life);
    channels.add(channel);
    const interrupt = (): void => network.send(worker.life, () => (session.interrupted = !faults.ignoresInterrupt()));
    if (signal.aborted) interrupt();
    signal.addEventListener("abort", interrupt, { once: true });
    network.send(worker.life, () => {
      const step = worker.step(session, request, (event) => channel.send({ kind: "event", event }));
      step.then((result) => channel.send({ kind: "result", result })).catch(() => channel.break());
    });
    try {
      for (;;) {
        const output = await channel.next();
        yield output;
        if (output.kind === "result") return;
      }
    } finally {
      signal.removeEventListener("abort", interrupt);
      channels.delete(channel);
    }
  }

  async deliver(message: SteeredMessage): Promise<boolean> {
    const session = this.#session;
    if (session === null || this.#connected.lost) return false;
    const { network, life } = this.#options;
    const { worker } = this.#connected;
    return await this.#unlessLost(
      network.between(life, worker.life, async () => {
        session.inbox?.push(message.messageId);
        return session.inbox !== null;
      }),
    );
  }

  leave(): void {
    this.#connected.seatCount -= 1;
    this.#options.onRoom("seat");
  }

  async terminate(): Promise<void> {
    const session = this.#session;
    // Who was cut off does not hear that it should end: it goes on until a gate tells it.
    if (session === null || this.#connected.lost) return;
    this.#options.network.send(this.#connected.worker.life, () => (session.ended = true));
  }

  /** A worker that dies while it is asked never answers; its supervisor hears of the loss instead. */
  async #unlessLost<T>(answer: Promise<T>): Promise<T> {
    const channel = new StepChannel(this.#options.network, this.#options.life);
    this.#connected.channels.add(channel);
    try {
      return await Promise.race([answer, channel.next().then(() => Promise.reject(new PlatformError("worker_lost")))]);
    } finally {
      this.#connected.channels.delete(channel);
    }
  }
}
