/** The workers of this process: who is connected, where there is room, and which worker keeps a warm session. */
import { PlatformError, type RuntimeInfo } from "@signalbox/contract";
import type { Clock, Log, Randomness, Seat, WorkerPool } from "@signalbox/core";
import { RemoteSeat, type SlotToken } from "./seat.ts";
import { WorkerConnection, type WorkerAnnouncement } from "./worker-connection.ts";

export interface ConnectedWorkersOptions {
  readonly joinToken: string;
  /** Tells workers which supervisor dials. */
  readonly supervisor: string;
  readonly gates: { readonly modelUrl: string; readonly toolUrl: string; readonly recordUrl: string };
  readonly clock: Clock;
  readonly randomness: Randomness;
  readonly log: Log;
  /** Called when room may have grown: a worker came or a seat was left. */
  readonly onRoom: () => void;
}

interface WarmSession {
  readonly workerId: string;
  readonly runtime: string;
  readonly slot: SlotToken;
}

export class ConnectedWorkers implements WorkerPool, AsyncDisposable {
  readonly #options: ConnectedWorkersOptions;
  readonly #connections = new Map<string, WorkerConnection>();
  readonly #warm = new Map<string, WarmSession>();

  constructor(options: ConnectedWorkersOptions) {
    this.#options = options;
  }

  /** A worker announced itself. Announcing again changes nothing; a dead worker's new announcement replaces it. */
  announce(announcement: WorkerAnnouncement): void {
    const known = this.#connections.get(announcement.incarnation);
    if (known !== undefined && !known.lost.aborted) return;
    const connection = new WorkerConnection(announcement, {
      joinToken: this.#options.joinToken,
      supervisor: this.#options.supervisor,
      clock: this.#options.clock,
      log: this.#options.log,
      onAlive: (worker) => {
        this.#options.log.info("worker connected", {
          worker: worker.id,
          address: announcement.address,
          runtimes: announcement.runtimes.map((runtime) => runtime.name),
        });
        this.#options.onRoom();
      },
      onDead: (worker) => this.#bury(worker),
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

  seat(conversationId: string, runtime: string): Promise<Seat> {
    const warm = this.#warm.get(conversationId);
    const keeper = warm === undefined || warm.runtime !== runtime ? undefined : this.#connections.get(warm.workerId);
    const keeps = keeper !== undefined && keeper.freeRoom > 0 && warm !== undefined;
    const connection = keeps ? keeper : this.#roomiest(runtime);
    if (connection === undefined) return Promise.reject(new PlatformError("no_worker"));
    const slot = keeps ? warm.slot : RemoteSeat.mintSlot(this.#options.randomness);
    return Promise.resolve(
      new RemoteSeat({
        connection,
        slot,
        gates: this.#options.gates,
        onOpened: (id) => this.#warm.set(id, { workerId: connection.id, runtime, slot }),
        onEnded: (id) => this.#warm.delete(id),
        onLeft: this.#options.onRoom,
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
  }

  #roomiest(runtime: string): WorkerConnection | undefined {
    let best: WorkerConnection | undefined;
    for (const connection of this.#connections.values()) {
      if (!connection.offers(runtime) || connection.freeRoom === 0) continue;
      if (best === undefined || connection.freeRoom > best.freeRoom) best = connection;
    }
    return best;
  }

  #bury(connection: WorkerConnection): void {
    this.#options.log.warn("worker lost", { worker: connection.id, address: connection.announcement.address });
    if (this.#connections.get(connection.id) === connection) this.#connections.delete(connection.id);
    for (const [conversationId, warm] of this.#warm) {
      if (warm.workerId === connection.id) this.#warm.delete(conversationId);
    }
  }
}
