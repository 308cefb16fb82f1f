/**
 * The live channel of a process: what is said here is heard here at once; that the log grew is told to other processes
 * by coalesced doorbells, after the commit. Nothing depends on any of it: while doorbells cannot be heard, and slowly
 * even while they can, the sequences of the conversations that are being read are looked up.
 */
import { randomBytes } from "node:crypto";
import type { LiveDelta } from "@signalbox/contract";
import type { LiveChannel, LiveHearing, LiveSubscription, Log } from "@signalbox/core";
import type { Client, Notification } from "pg";
import { pause } from "../../store/pause.ts";
import { readRows, type Queryable } from "../../store/record-call.ts";
import { LISTEN, NEWEST_SEQUENCES, RING } from "../../store/statements/live-statements.ts";
import { readDoorbell, writeDoorbells } from "./doorbell-text.ts";
import type { LiveBus } from "./live-bus.ts";

export interface LiveChannelOptions {
  readonly bus: LiveBus;
  /** Opens a session of its own, past any pooler. */
  readonly connect: () => Promise<Client>;
  /** Connects as `signalbox_run`; for looking up sequences. */
  readonly database: Queryable;
  readonly log: Log;
  readonly coalesceMs?: number;
  /** How often sequences are looked up while doorbells are heard, and while they are not. */
  readonly pollMs?: number;
  readonly deafPollMs?: number;
}

const COALESCE_MS = 20;
const POLL_MS = 1_000;
const DEAF_POLL_MS = 250;
const RECONNECT_FIRST_MS = 50;
const RECONNECT_CAP_MS = 2_000;

interface Newest {
  readonly conversationId: string;
  readonly sequence: number;
  /** Deleted: no event will say so. */
  readonly gone: boolean;
}

export class PostgresLiveChannel implements LiveChannel, LiveHearing, AsyncDisposable {
  readonly #options: Required<LiveChannelOptions>;
  readonly #origin = randomBytes(8).toString("hex");
  readonly #stop = new AbortController();
  readonly #loops: readonly Promise<void>[];
  #client: Client | null = null;
  #waiting = new Map<string, number>();
  #gatesWait = new Set<string>();
  #supervisorsWait = false;
  #timer: NodeJS.Timeout | null = null;
  #sentAtMs = Number.NEGATIVE_INFINITY;
  #sending: Promise<void> | null = null;

  constructor(options: LiveChannelOptions) {
    this.#options = { coalesceMs: COALESCE_MS, pollMs: POLL_MS, deafPollMs: DEAF_POLL_MS, ...options };
    this.#loops = [this.#listen(), this.#poll()];
  }

  publish(delta: LiveDelta): void {
    this.#options.bus.publish(delta);
  }

  ring(conversationId: string, sequence: number): void {
    this.#options.bus.ring(conversationId, sequence);
    this.#waiting.set(conversationId, Math.max(sequence, this.#waiting.get(conversationId) ?? 0));
    this.#schedule();
  }

  ringSupervisors(): void {
    this.#options.bus.ringSupervisors();
    this.#supervisorsWait = true;
    this.#schedule();
  }

  ringGates(conversationId: string): void {
    this.#options.bus.ringGates(conversationId);
    this.#gatesWait.add(conversationId);
    this.#schedule();
  }

  subscribe(conversationId: string): LiveSubscription {
    return this.#options.bus.subscribe(conversationId);
  }

  onSupervisorsRung(listener: () => void): () => void {
    return this.#options.bus.onSupervisorsRung(listener);
  }

  onRung(listener: () => void): () => void {
    return this.#options.bus.onRung(listener);
  }

  onGatesRung(listener: (conversationId: string | null) => void): () => void {
    return this.#options.bus.onGatesRung(listener);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    if (this.#timer !== null) {
      clearTimeout(this.#timer);
    }
    await this.#sending;
    await this.#disconnect();
    await Promise.all(this.#loops);
    this.#options.bus.close();
  }

  #schedule(): void {
    if (this.#timer !== null || this.#sending !== null || this.#stop.signal.aborted) {
      return;
    }
    const waitMs = this.#sentAtMs + this.#options.coalesceMs - performance.now();
    this.#timer = setTimeout(
      () => {
        this.#timer = null;
        this.#sending = this.#send().finally(() => {
          this.#sending = null;
          if (this.#waiting.size > 0 || this.#gatesWait.size > 0 || this.#supervisorsWait) {
            this.#schedule();
          }
        });
      },
      Math.max(waitMs, 0),
    );
  }

  /** What cannot be sent is forgotten: whoever did not hear it looks by itself. */
  async #send(): Promise<void> {
    const bell = {
      origin: this.#origin,
      supervisors: this.#supervisorsWait,
      conversations: this.#waiting,
      gates: this.#gatesWait,
    };
    this.#waiting = new Map();
    this.#gatesWait = new Set();
    this.#supervisorsWait = false;
    this.#sentAtMs = performance.now();
    const client = this.#client;
    if (client === null) {
      return;
    }
    try {
      for (const text of writeDoorbells(bell)) {
        await readRows(client, RING, [text]);
      }
    } catch (thrown) {
      this.#options.log.warn("doorbells were lost", { cause: String(thrown) });
    }
  }

  async #listen(): Promise<void> {
    const { bus, log } = this.#options;
    const { signal } = this.#stop;
    for (let failures = 0; !signal.aborted;) {
      try {
        const client = await this.#options.connect();
        const lost = Promise.withResolvers<void>();
        client.once("error", () => lost.resolve());
        client.once("end", () => lost.resolve());
        client.on("notification", (notification) => this.#hear(notification));
        await client.query(LISTEN);
        this.#client = client;
        failures = 0;
        if (signal.aborted) {
          await this.#disconnect();
          return;
        }
        // Whatever was rung while nobody listened was lost.
        bus.ringAll();
        await lost.promise;
        await this.#disconnect();
        if (!signal.aborted) {
          log.warn("the session that hears doorbells is lost");
        }
      } catch (thrown) {
        failures += 1;
        log.warn("doorbells cannot be heard", { cause: String(thrown) });
        await pause(Math.min(RECONNECT_FIRST_MS * 2 ** failures, RECONNECT_CAP_MS), signal);
      }
    }
  }

  async #disconnect(): Promise<void> {
    const client = this.#client;
    this.#client = null;
    await client?.end().catch(() => undefined);
  }

  #hear({ payload = "" }: Notification): void {
    const bell = readDoorbell(payload);
    if (bell === null || bell.origin === this.#origin) {
      return;
    }
    for (const [conversationId, sequence] of bell.conversations) {
      this.#options.bus.ring(conversationId, sequence);
    }
    bell.gates.forEach((conversationId) => this.#options.bus.ringGates(conversationId));
    if (bell.supervisors) {
      this.#options.bus.ringSupervisors();
    }
  }

  async #poll(): Promise<void> {
    const { bus, database, log, pollMs, deafPollMs } = this.#options;
    const { signal } = this.#stop;
    let seen = new Map<string, number>();
    for (;;) {
      await pause(this.#client === null ? deafPollMs : pollMs, signal);
      if (signal.aborted) {
        return;
      }
      const read = bus.conversations();
      if (read.length === 0) {
        seen.clear();
        continue;
      }
      try {
        const rows = await readRows<Newest>(database, NEWEST_SEQUENCES, [read]);
        for (const { conversationId, sequence, gone } of rows) {
          if (sequence > (seen.get(conversationId) ?? -1)) bus.ring(conversationId, sequence);
          if (gone) bus.reread(conversationId);
        }
        seen = new Map(rows.map(({ conversationId, sequence }) => [conversationId, sequence]));
      } catch (thrown) {
        log.warn("sequences could not be looked up", { cause: String(thrown) });
      }
    }
  }
}
