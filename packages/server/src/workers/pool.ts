/** The workers of this process: who is connected, where there is room, and which worker keeps a warm session. */
import { PlatformError, type RuntimeInfo } from "@signalbox/contract";
import type { Clock, Log, Randomness, Seat, WorkerPool } from "@signalbox/core";
import { RemoteSeat, type SlotToken } from "./seat.ts";
import {
  HEARTBEAT_EVERY_MS,
  WorkerConnection,
  type HeldSession,
  type HeldSessions,
  type WorkerAnnouncement,
} from "./worker-connection.ts";

export interface ConnectedWorkersOptions {
  readonly joinToken: string;
  /** Tells workers which supervisor dials. */
  readonly supervisor: string;
  readonly gates: { readonly modelUrl: string; readonly toolUrl: string; readonly recordUrl: string };
  readonly clock: Clock;
  readonly randomness: Randomness;
  readonly log: Log;
  /** Default 1000. */
  readonly heartbeatEveryMs?: number;
  /** Hears of the sessions that a worker brought along, before the worker counts. */
  readonly onSessions?: (held: readonly HeldSession[]) => Promise<void>;
  /** Called when a worker came, and when a seat was left. */
  readonly onRoom: (cause: "worker" | "seat") => void;
}

interface WarmSession {
  readonly workerId: string;
  readonly runtime: string;
  readonly slot: SlotToken;
  readonly openedAtMs: number;
}

interface Place {
  readonly connection: WorkerConnection;
  readonly slot: SlotToken;
}

/** Announced seats that are not taken are those of messages that had to wait; the oldest are forgotten. */
const EXPECTED_MAX = 1_000;

export class ConnectedWorkers implements WorkerPool, AsyncDisposable {
  readonly #options: ConnectedWorkersOptions;
  readonly #connections = new Map<string, WorkerConnection>();
  readonly #warm = new Map<string, WarmSession>();
  /** Seats that were announced to admission and not taken yet, by conversation. */
  readonly #expected = new Map<string, Place & { readonly runtime: string }>();

  constructor(options: ConnectedWorkersOptions) {
    this.#options = options;
  }

  /** A worker announced itself. Announcing again changes nothing; a dead worker's new announcement replaces it. */
  announce(announcement: WorkerAnnouncement): void {
    const known = this.#connections.get(announcement.incarnation);
    if (known !== undefined && !known.lost.aborted) return;
    const { joinToken, supervisor, clock, onSessions, heartbeatEveryMs = HEARTBEAT_EVERY_MS } = this.#options;
    const connection = new WorkerConnection(announcement, {
      joinToken,
      supervisor,
      clock,
      heartbeatEveryMs,
      ...(onSessions === undefined ? {} : { onFirstHeard: onSessions }),
      onAlive: (worker) => this.#welcome(worker),
      onDead: (worker) => this.#bury(worker),
      onSessions: (worker, held) => this.#forgetParked(worker, held),
    });
    this.#connections.set(connection.id, connection);
  }

  room(): Readonly<Record<string, number>> {
    const room: Record<string, number> = {};
    for (const connection of this.#connections.values()) {
      if (!connection.alive) continue;
      for (const runtime of connection.runtimes) {
        if (runtime.available) room[runtime.name] = (room[runtime.name] ?? 0) + connection.freeRoom;
      }
    }
    return room;
  }

  /** The seat that will be given next for this conversation, if nothing happens in between; it is not taken yet. */
  expectedSeat(
    conversationId: string,
    runtime: string,
  ): { readonly tokenHash: string; readonly workerId: string } | null {
    const place = this.#place(conversationId, runtime);
    if (place === null) return null;
    this.#expected.delete(conversationId);
    this.#expected.set(conversationId, { ...place, runtime });
    if (this.#expected.size > EXPECTED_MAX) {
      const [oldest] = this.#expected.keys();
      this.#expected.delete(oldest ?? "");
    }
    return { tokenHash: place.slot.hash, workerId: place.connection.id };
  }

  seat(conversationId: string, runtime: string): Promise<Seat> {
    const expected = this.#expected.get(conversationId);
    this.#expected.delete(conversationId);
    const isStill = expected?.runtime === runtime && isAble(expected.connection, runtime);
    const place = isStill ? expected : this.#place(conversationId, runtime);
    if (place === null) return Promise.reject(new PlatformError("no_worker"));
    const { connection, slot } = place;
    const openedAtMs = (): number => this.#options.clock.monotonicMs();
    return Promise.resolve(
      new RemoteSeat({
        connection,
        slot,
        gates: this.#options.gates,
        onOpened: (id) => this.#warm.set(id, { workerId: connection.id, runtime, slot, openedAtMs: openedAtMs() }),
        onEnded: (id) => this.#warm.delete(id),
        onLeft: () => this.#options.onRoom("seat"),
      }),
    );
  }

  /** What `GET /v1/runtimes` shows: every runtime a connected worker announces. */
  runtimes(): readonly RuntimeInfo[] {
    const byName = new Map<string, RuntimeInfo>();
    for (const connection of this.#connections.values()) {
      if (!connection.alive) continue;
      for (const runtime of connection.runtimes) {
        const before = byName.get(runtime.name);
        const prefer = before === undefined || (!before.available && runtime.available);
        byName.set(runtime.name, {
          name: runtime.name,
          version: prefer ? runtime.version : before.version,
          available: runtime.available || (before?.available ?? false),
          problem: runtime.available || before?.available === true ? null : runtime.problem,
          capabilities: [...(prefer ? runtime.capabilities : before.capabilities)],
          workers: (before?.workers ?? 0) + 1,
          room: (before?.room ?? 0) + (runtime.available ? connection.freeRoom : 0),
        });
      }
    }
    return [...byName.values()].sort((left, right) => (left.name < right.name ? -1 : 1));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#connections.values()].map((connection) => connection[Symbol.asyncDispose]()));
    this.#connections.clear();
    this.#warm.clear();
    this.#expected.clear();
  }

  #place(conversationId: string, runtime: string): Place | null {
    const kept = this.#keptSession(conversationId, runtime);
    if (kept !== null) return kept;
    const connection = this.#roomiest(runtime);
    return connection === undefined ? null : { connection, slot: RemoteSeat.mintSlot(this.#options.randomness) };
  }

  /** The worker that keeps this conversation's session warm, if it can go on with it now. */
  #keptSession(conversationId: string, runtime: string): Place | null {
    const warm = this.#warm.get(conversationId);
    if (warm === undefined || warm.runtime !== runtime) return null;
    const connection = this.#connections.get(warm.workerId);
    return connection !== undefined && isAble(connection, runtime) ? { connection, slot: warm.slot } : null;
  }

  #roomiest(runtime: string): WorkerConnection | undefined {
    let best: WorkerConnection | undefined;
    for (const connection of this.#connections.values()) {
      if (!isAble(connection, runtime)) continue;
      if (best === undefined || connection.freeRoom > best.freeRoom) best = connection;
    }
    return best;
  }

  #welcome(connection: WorkerConnection): void {
    this.#options.log.info("worker connected", {
      worker: connection.id,
      address: connection.announcement.address,
      runtimes: connection.runtimes.map((runtime) => runtime.name),
    });
    this.#options.onRoom("worker");
  }

  /** A worker parks sessions by itself; what it no longer holds need not be remembered. */
  #forgetParked(connection: WorkerConnection, held: HeldSessions): void {
    for (const [conversationId, warm] of this.#warm) {
      const older = warm.openedAtMs < held.askedAtMs;
      if (warm.workerId === connection.id && older && !held.conversationIds.has(conversationId)) {
        this.#warm.delete(conversationId);
      }
    }
  }

  #bury(connection: WorkerConnection): void {
    this.#options.log.warn("worker lost", { worker: connection.id, address: connection.announcement.address });
    if (this.#connections.get(connection.id) === connection) this.#connections.delete(connection.id);
    for (const [conversationId, warm] of this.#warm) {
      if (warm.workerId === connection.id) this.#warm.delete(conversationId);
    }
  }
}

function isAble(connection: WorkerConnection, runtime: string): boolean {
  return connection.offers(runtime) && connection.freeRoom > 0;
}
