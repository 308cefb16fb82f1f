/**
 * One connected worker: its address, its heartbeat and the calls to it. A worker that misses three heartbeats, or
 * whose step stream breaks, is dead: everything that waits on it ends with `worker_lost`, and it has to register again.
 */
import { PlatformError } from "@signalbox/contract";
import { WorkerService, type Runtime } from "@signalbox/contract/worker-protocol";
import type { Clock, Log } from "@signalbox/core";
import { createClient, type Client, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { fromConnect } from "./worker-errors.ts";

export const HEARTBEAT_EVERY_MS = 1_000;
export const HEARTBEATS_MISSED_LIMIT = 3;
/** Larger bodies travel through the record gate. */
export const MESSAGE_LIMIT_BYTES = 4 * 1024 * 1024;

export interface WorkerAnnouncement {
  readonly address: string;
  readonly incarnation: string;
  readonly room: number;
  readonly runtimes: readonly Runtime[];
}

export interface WorkerConnectionOptions {
  readonly joinToken: string;
  readonly supervisor: string;
  readonly clock: Clock;
  readonly log: Log;
  readonly onDead: (connection: WorkerConnection) => void;
  readonly onAlive: (connection: WorkerConnection) => void;
}

export class WorkerConnection implements AsyncDisposable {
  readonly announcement: WorkerAnnouncement;
  readonly client: Client<typeof WorkerService>;
  /** Aborts when the worker is dead. */
  readonly lost: AbortSignal;
  readonly #options: WorkerConnectionOptions;
  readonly #sessions: Http2SessionManager;
  readonly #lost = new AbortController();
  readonly #heartbeat: Promise<void>;
  #alive = false;
  #runtimes: readonly Runtime[];
  #sitting = 0;

  constructor(announcement: WorkerAnnouncement, options: WorkerConnectionOptions) {
    this.announcement = announcement;
    this.#options = options;
    this.#runtimes = announcement.runtimes;
    this.lost = this.#lost.signal;
    this.#sessions = new Http2SessionManager(announcement.address);
    const authorize: Interceptor = (next) => (request) => {
      request.header.set("authorization", `Bearer ${options.joinToken}`);
      return next(request);
    };
    const transport = createGrpcTransport({
      baseUrl: announcement.address,
      sessionManager: this.#sessions,
      interceptors: [authorize],
      readMaxBytes: MESSAGE_LIMIT_BYTES,
      writeMaxBytes: MESSAGE_LIMIT_BYTES,
    });
    this.client = createClient(WorkerService, transport);
    this.#heartbeat = this.#beat();
  }

  get id(): string {
    return this.announcement.incarnation;
  }

  get alive(): boolean {
    return this.#alive && !this.lost.aborted;
  }

  get runtimes(): readonly Runtime[] {
    return this.#runtimes;
  }

  get freeRoom(): number {
    return this.alive ? Math.max(0, this.announcement.room - this.#sitting) : 0;
  }

  offers(runtime: string): boolean {
    return this.#runtimes.some((each) => each.name === runtime && each.available);
  }

  /** Counts a run in until the returned function is called. */
  sit(): () => void {
    this.#sitting += 1;
    let seated = true;
    return () => {
      if (seated) this.#sitting -= 1;
      seated = false;
    };
  }

  /** Runs one call; a transport failure means that the worker is lost. */
  async call<T>(run: (signal: AbortSignal) => Promise<T>): Promise<T> {
    if (this.lost.aborted) throw new PlatformError("worker_lost");
    try {
      return await run(this.lost);
    } catch (thrown) {
      const error = fromConnect(thrown);
      if (error.code === "worker_lost") this.declareDead(error);
      throw error;
    }
  }

  declareDead(cause: unknown): void {
    if (this.lost.aborted) return;
    this.#alive = false;
    this.#lost.abort(new PlatformError("worker_lost", undefined, { cause }));
    this.#sessions.abort();
    this.#options.onDead(this);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#alive = false;
    this.#lost.abort(new PlatformError("shutting_down"));
    this.#sessions.abort();
    await this.#heartbeat;
  }

  async #beat(): Promise<void> {
    let missed = 0;
    while (!this.lost.aborted) {
      try {
        const answer = await this.client.heartbeat(
          { supervisor: this.#options.supervisor },
          { signal: this.lost, timeoutMs: HEARTBEAT_EVERY_MS },
        );
        if (answer.incarnation !== this.announcement.incarnation) {
          this.declareDead(new PlatformError("worker_lost", "Another worker answers at this address."));
          return;
        }
        missed = 0;
        this.#runtimes = answer.runtimes;
        if (!this.#alive) {
          this.#alive = true;
          this.#options.onAlive(this);
        }
      } catch (thrown) {
        missed += 1;
        if (missed >= HEARTBEATS_MISSED_LIMIT) this.declareDead(thrown);
      }
      await this.#options.clock.sleep(HEARTBEAT_EVERY_MS, this.lost);
    }
  }
}
