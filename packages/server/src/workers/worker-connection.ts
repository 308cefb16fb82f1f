/**
 * One connected worker: its address, its heartbeat and the calls to it. A worker that misses three heartbeats and says
 * nothing else meanwhile, or whose step stream breaks, is dead: everything that waits on it ends with `worker_lost`, and
 * it has to register again.
 */
import { PlatformError } from "@signalbox/contract";
import { WorkerService, type HeartbeatResponse, type Runtime } from "@signalbox/contract/worker-protocol";
import type { Clock } from "@signalbox/core";
import { createClient, type Client, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { fromConnect, isConnectionLost } from "./worker-errors.ts";

export const HEARTBEAT_EVERY_MS = 1_000;
const HEARTBEATS_MISSED_LIMIT = 3;
/** Larger bodies travel through the record gate. */
const MESSAGE_LIMIT_BYTES = 4 * 1024 * 1024;

export interface WorkerAnnouncement {
  readonly address: string;
  readonly incarnation: string;
  readonly room: number;
  readonly runtimes: readonly Runtime[];
}

export interface HeldSession {
  readonly conversationId: string;
  readonly generation: number;
}

/** What a worker said it holds, and when it was asked. */
export interface HeldSessions {
  readonly conversationIds: ReadonlySet<string>;
  readonly askedAtMs: number;
}

export interface WorkerConnectionOptions {
  readonly joinToken: string;
  readonly supervisor: string;
  readonly clock: Clock;
  readonly heartbeatEveryMs: number;
  readonly onDead: (connection: WorkerConnection) => void;
  /** Hears once, before the worker counts, which sessions it brought along. A rejection is asked again. */
  readonly onFirstHeard?: (held: readonly HeldSession[]) => Promise<void>;
  readonly onAlive: (connection: WorkerConnection) => void;
  readonly onSessions: (connection: WorkerConnection, held: HeldSessions) => void;
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
  #room: number;
  /** Steps that run for anybody, as the worker said last. */
  #steppingCount = 0;
  #sittingCount = 0;
  #spokeAtMs = Number.NEGATIVE_INFINITY;

  constructor(announcement: WorkerAnnouncement, options: WorkerConnectionOptions) {
    this.announcement = announcement;
    this.#options = options;
    this.#runtimes = announcement.runtimes;
    this.#room = announcement.room;
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

  get clock(): Clock {
    return this.#options.clock;
  }

  get runtimes(): readonly Runtime[] {
    return this.#runtimes;
  }

  /** Steps that could begin now. Another supervisor may use the same worker; one that drains has no room. */
  get freeRoom(): number {
    return this.alive ? Math.max(0, this.#room - Math.max(this.#sittingCount, this.#steppingCount)) : 0;
  }

  offers(runtime: string): boolean {
    return this.#runtimes.some((each) => each.name === runtime && each.available);
  }

  /** Counts a run in until the returned function is called. */
  sit(): () => void {
    this.#sittingCount += 1;
    let seated = true;
    return () => {
      if (seated) this.#sittingCount -= 1;
      seated = false;
    };
  }

  /** A step said something: a worker that is busy answers its heartbeats late, and is not dead for it. */
  spoke(): void {
    this.#spokeAtMs = this.clock.monotonicMs();
  }

  /** Runs one call; a connection that breaks means that the worker is dead. */
  async call<T>(run: (signal: AbortSignal) => Promise<T>): Promise<T> {
    if (this.lost.aborted) throw new PlatformError("worker_lost");
    try {
      return await run(this.lost);
    } catch (thrown) {
      throw this.failed(thrown);
    }
  }

  /** What a call ended with, in our words; the worker is declared dead when it will answer nothing else either. */
  failed(thrown: unknown): PlatformError {
    const error = fromConnect(thrown);
    if (isConnectionLost(thrown)) this.declareDead(error);
    return error;
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
    const { clock, heartbeatEveryMs } = this.#options;
    let missedCount = 0;
    while (!this.lost.aborted) {
      const askedAtMs = clock.monotonicMs();
      try {
        const answer = await this.client.heartbeat(
          { supervisor: this.#options.supervisor },
          { signal: this.lost, timeoutMs: heartbeatEveryMs },
        );
        missedCount = 0;
        if (!this.#alive) await this.#options.onFirstHeard?.(answer.sessions.map(heldOf));
        this.#heard(answer, askedAtMs);
      } catch (thrown) {
        missedCount = this.#spokeAtMs >= askedAtMs ? 0 : missedCount + 1;
        if (missedCount >= HEARTBEATS_MISSED_LIMIT) this.declareDead(thrown);
      }
      // Counted from when it was asked, so that three that go unanswered take no longer than three periods.
      await clock.sleep(Math.max(0, heartbeatEveryMs - (clock.monotonicMs() - askedAtMs)), this.lost);
    }
  }

  #heard(answer: HeartbeatResponse, askedAtMs: number): void {
    if (this.lost.aborted) return;
    if (answer.incarnation !== this.announcement.incarnation) {
      this.declareDead(new PlatformError("worker_lost", "Another worker answers at this address."));
      return;
    }
    this.#runtimes = answer.runtimes;
    this.#room = answer.room;
    this.#steppingCount = answer.sessions.filter((session) => session.stepping).length;
    const conversationIds = new Set(answer.sessions.map((session) => session.conversationId));
    this.#options.onSessions(this, { conversationIds, askedAtMs });
    if (!this.#alive) {
      this.#alive = true;
      this.#options.onAlive(this);
    }
  }
}

function heldOf(session: HeartbeatResponse["sessions"][number]): HeldSession {
  return { conversationId: session.conversationId, generation: Number(session.generation) };
}
