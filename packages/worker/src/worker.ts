/**
 * A worker process, or a worker inside an embedding process: serves WorkerService, keeps the sessions, announces
 * itself, and ends every engine by itself when it has heard from no supervisor for one lease.
 */
import { randomUUID } from "node:crypto";
import type { ConnectRouter } from "@connectrpc/connect";
import type { PlatformError } from "@signalbox/contract";
import { settledWithin, systemClock, type WorkerClock } from "./clock.ts";
import type { LoadExecutor, RuntimeDescription, TranscriptLog } from "./executor.ts";
import { DRAIN_BOUND_MS, LEASE_DEFAULT_MS, REAP_EVERY_MS, ROOM_DEFAULT } from "./limits.ts";
import { lineLog, type WorkerLog } from "./log.ts";
import { listen, type Listener } from "./listener.ts";
import { RecordConnections } from "./record-client.ts";
import { Registration } from "./registration.ts";
import { Runtimes } from "./runtimes.ts";
import { makeScratch } from "./scratch.ts";
import { serveWorker } from "./service.ts";
import { Sessions } from "./sessions.ts";

/** What a worker runs and where it is found. Durations are milliseconds, with the defaults of `limits.ts`. */
export interface WorkerOptions {
  readonly joinToken: string;
  /** Runtime name → how to import its executor. Every one is loaded and described before the worker announces itself. */
  readonly runtimes: Readonly<Record<string, LoadExecutor>>;
  /** Where RegistryService is. Absent: the worker announces itself to nobody; the embedding process knows it. */
  readonly platformUrl?: string;
  /** Host to listen on, 127.0.0.1 by default; `null` opens no socket (see `workerRoutes`). */
  readonly host?: string | null;
  /** 0, the default, takes any free port. */
  readonly port?: number;
  /** Address to announce, when the platform reaches the worker by another than it listens on. */
  readonly advertise?: string;
  /** Steps that may run at once, 64 by default. */
  readonly room?: number;
  /** Serves snapshots of older releases that name no runtime; `langgraph` by default. */
  readonly defaultRuntime?: string;
  /** Folder to make the private scratch directory in; the system's temporary folder by default. */
  readonly scratchRoot?: string;
  readonly clock?: WorkerClock;
  readonly log?: WorkerLog;
  /** Replaces the record gate's client, for a process that holds the record itself. */
  readonly transcript?: (recordUrl: string, slotToken: string) => TranscriptLog;
  readonly sessionIdleMaxMs?: number;
  readonly sessionAgeMaxMs?: number;
  readonly drainMs?: number;
  /** The platform refused the join token; announcing again will not help. */
  readonly onRefused?: (error: PlatformError) => void;
}

/** A started worker. Disposing of it drains it first, then ends every engine and closes the socket. */
export interface Worker extends AsyncDisposable {
  /** A random name of this start of the worker. */
  readonly incarnation: string;
  /** What the platform dials; empty when the worker opened no socket. */
  readonly address: string;
  readonly runtimes: readonly RuntimeDescription[];
  /** WorkerService for a router in the same process; calls still carry the join token. */
  readonly routes: (router: ConnectRouter) => void;
  /** Starts nothing new, lets running steps end within the bound, interrupts the rest. Idempotent. */
  drain(): Promise<void>;
}

/**
 * Starts a worker and resolves when it can be called. A runtime that cannot be loaded is announced as not available;
 * only a socket or scratch directory that cannot be opened rejects, with Node's error.
 */
export async function startWorker(options: WorkerOptions): Promise<Worker> {
  const clock = options.clock ?? systemClock;
  const log =
    options.log ??
    lineLog(
      (line) => process.stderr.write(line),
      () => clock.nowMs(),
    );
  const scratch = await makeScratch(options.scratchRoot);
  const toEnd: (AsyncDisposable | Disposable)[] = [scratch];
  try {
    const runtimes = await Runtimes.load({
      loaders: options.runtimes,
      ...(options.defaultRuntime === undefined ? {} : { defaultRuntime: options.defaultRuntime }),
      scratchDir: scratch.path,
      log,
    });
    toEnd.push(runtimes);
    const record = new RecordConnections(clock);
    toEnd.push(record);
    const started = new StartedWorker({ ...options, clock, log, runtimes, record });
    toEnd.push(started);
    await started.open();
    return withEnd(started, toEnd);
  } catch (error) {
    await endInReverse(toEnd);
    throw error;
  }
}

/** WorkerService of a started worker, for `createRouterTransport` in the same process. */
export function workerRoutes(worker: Worker): (router: ConnectRouter) => void {
  return worker.routes;
}

function withEnd(started: StartedWorker, toEnd: readonly (AsyncDisposable | Disposable)[]): Worker {
  let end: Promise<void> | null = null;
  return {
    incarnation: started.incarnation,
    address: started.address,
    runtimes: started.runtimes,
    routes: started.routes,
    drain: () => started.drain(),
    [Symbol.asyncDispose]: () => (end ??= endInReverse(toEnd)),
  };
}

async function endInReverse(parts: readonly (AsyncDisposable | Disposable)[]): Promise<void> {
  for (const part of parts.toReversed()) {
    await (Symbol.asyncDispose in part ? part[Symbol.asyncDispose]() : part[Symbol.dispose]());
  }
}

interface Parts extends Omit<WorkerOptions, "runtimes"> {
  readonly clock: WorkerClock;
  readonly log: WorkerLog;
  readonly runtimes: Runtimes;
  readonly record: RecordConnections;
}

class StartedWorker implements AsyncDisposable {
  readonly incarnation = randomUUID();
  readonly routes: (router: ConnectRouter) => void;
  address = "";
  readonly #parts: Parts;
  readonly #sessions: Sessions;
  readonly #stop = new AbortController();
  readonly #background: Promise<unknown>[] = [];
  #listener: Listener | null = null;
  #registration: Registration | null = null;
  #leaseMs = LEASE_DEFAULT_MS;
  /** When a supervisor called last; before the first call there is nothing a lease could protect. */
  #heardAtMs = Number.NEGATIVE_INFINITY;
  #drained: Promise<void> | null = null;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#sessions = new Sessions({
      runtimes: parts.runtimes,
      room: parts.room ?? ROOM_DEFAULT,
      clock: parts.clock,
      log: parts.log,
      transcript: parts.transcript ?? ((url, token) => parts.record.log(url, token)),
      ...(parts.sessionIdleMaxMs === undefined ? {} : { idleMaxMs: parts.sessionIdleMaxMs }),
      ...(parts.sessionAgeMaxMs === undefined ? {} : { ageMaxMs: parts.sessionAgeMaxMs }),
    });
    this.routes = serveWorker({
      incarnation: this.incarnation,
      joinToken: parts.joinToken,
      sessions: this.#sessions,
      runtimes: () => parts.runtimes.descriptions,
      log: parts.log,
      onHeard: () => {
        this.#heardAtMs = parts.clock.monotonicMs();
      },
    });
  }

  get runtimes(): readonly RuntimeDescription[] {
    return this.#parts.runtimes.descriptions;
  }

  async open(): Promise<void> {
    const { host = "127.0.0.1", port = 0, advertise, platformUrl } = this.#parts;
    if (host !== null) {
      this.#listener = await listen({ routes: this.routes, host, port });
      this.address = advertise ?? this.#listener.address;
    }
    if (platformUrl !== undefined) {
      this.#registration = this.#register(platformUrl);
    }
    this.#background.push(
      this.#every(
        () => this.#leaseMs / 4,
        () => this.#endWhenUnled(),
      ),
      this.#every(
        () => REAP_EVERY_MS,
        () => this.#sessions.reap(),
      ),
      this.#parts.runtimes.warm(),
    );
  }

  drain(): Promise<void> {
    this.#drained ??= this.#drain();
    return this.#drained;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.drain();
    this.#stop.abort();
    await this.#registration?.[Symbol.asyncDispose]();
    await this.#listener?.[Symbol.asyncDispose]();
    await Promise.all(this.#background);
  }

  async #drain(): Promise<void> {
    this.#sessions.drain();
    const { clock, drainMs = DRAIN_BOUND_MS } = this.#parts;
    const waiting = new AbortController();
    await settledWithin(this.#stepsEnded(waiting.signal), drainMs, clock);
    waiting.abort();
    await this.#sessions.endAll("the worker is shutting down");
  }

  async #stepsEnded(stop: AbortSignal): Promise<void> {
    while (!stop.aborted && this.#sessions.all.some((session) => session.stepping)) {
      await this.#parts.clock.sleep(20, stop);
    }
  }

  async #endWhenUnled(): Promise<void> {
    const silentMs = this.#parts.clock.monotonicMs() - this.#heardAtMs;
    if (silentMs <= this.#leaseMs || this.#sessions.all.length === 0) {
      return;
    }
    this.#parts.log.warn("no supervisor for one lease: ending every session", {
      silentMs: Math.round(silentMs),
      sessions: this.#sessions.all.length,
    });
    for (const session of this.#sessions.all) {
      session.lose("worker_lost", "This worker has heard from no supervisor for one lease.");
    }
    await this.#sessions.endAll("no supervisor for one lease");
  }

  #register(platformUrl: string): Registration {
    const { joinToken, room = ROOM_DEFAULT, clock, log, runtimes, onRefused } = this.#parts;
    return new Registration({
      platformUrl,
      joinToken,
      address: this.address,
      incarnation: this.incarnation,
      room,
      runtimes: () => runtimes.descriptions,
      clock,
      log,
      silenceMs: () => clock.monotonicMs() - this.#heardAtMs,
      onLease: (leaseMs) => {
        this.#leaseMs = leaseMs > 0 ? leaseMs : LEASE_DEFAULT_MS;
      },
      onRefused: (error) => {
        log.error("the platform refuses this worker", error);
        onRefused?.(error);
      },
    });
  }

  async #every(periodMs: () => number, work: () => Promise<void>): Promise<void> {
    while ((await this.#parts.clock.sleep(periodMs(), this.#stop.signal)) === "elapsed") {
      try {
        await work();
      } catch (error) {
        this.#parts.log.error("background work of the worker failed", error);
      }
    }
  }
}
