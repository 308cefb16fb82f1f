/**
 * This process in the record: incarnation, lease, presence. Presence is an advisory lock of one session that does
 * nothing else. When the session is lost this process authorises nothing; it takes its lock again as soon as it can, in
 * a statement that finds it not declared dead. Heartbeats travel on the same session and need no pool.
 */
import { PlatformError } from "@signalbox/contract";
import type { LiveChannel, Log, ProcessRecord } from "@signalbox/core";
import type { Client } from "pg";
import { translateDatabaseError } from "../../store/database-errors.ts";
import { pause } from "../../store/pause.ts";
import { askRecord, readRows, type Queryable } from "../../store/record-call.ts";
import {
  BURY_PROCESSES,
  CHECK_STORE,
  END_ABANDONED,
  FORGET_PROCESSES,
  LOSE_MODEL_CALL,
  LOSE_TOOL_CALL,
  LOST_CALLS,
  OPEN_ERA,
  REGISTER_PROCESS,
  RENEW_PROCESS,
  RETAKE_PRESENCE,
  SESSIONS_AHEAD,
  STORE_MARK,
  UNREGISTER_PROCESS,
} from "../../store/statements/record-statements.ts";
import type { Authority } from "./authority.ts";
import { carryOut } from "./operator-record.ts";

/** What is known of the store outside it. */
export interface StoreWitness {
  /** Where the store lies, when this process can see that; `null` otherwise. */
  readonly place: string | null;
  /** The newest sign of life it was seen with, in milliseconds of its clock; 0 when it was never seen. */
  readonly markMs: () => number;
  readonly remember: (markMs: number) => void;
}

export interface ProcessRecordOptions {
  /** Opens a session of its own as `signalbox_run`, past any pooler. */
  readonly connect: () => Promise<Client>;
  /** Connects as `signalbox_run`; for what needs no presence. */
  readonly database: Queryable;
  readonly live: Pick<LiveChannel, "ring" | "ringGates" | "ringSupervisors">;
  readonly log: Log;
  readonly leaseMs?: number;
  /** Left out: kept in memory, for as long as this process lives. */
  readonly witness?: StoreWitness;
}

const LEASE_MS = 10_000;
const RETAKE_FIRST_MS = 20;
const RETAKE_CAP_MS = 1_000;
/** Open calls of dead gates that one sweep closes. */
const LOST_CALL_COUNT = 200;
/** Stops, lifted pauses and overdue holds that one sweep carries out. */
const CARRY_OUT_COUNT = 200;
const FORGET_EVERY_SWEEPS = 200;

interface Session {
  readonly client: Client;
  readonly process: number;
}

export class PostgresProcessRecord implements ProcessRecord, Authority, AsyncDisposable {
  readonly #options: ProcessRecordOptions;
  readonly #leaseMs: number;
  readonly #witness: StoreWitness;
  #session: Session | null = null;
  /** The incarnation that lost its session and has not given up. */
  #seeking: { readonly process: number; readonly stop: AbortController; readonly ended: Promise<void> } | null = null;
  #sweepCount = 0;
  #era: number | null = null;

  constructor(options: ProcessRecordOptions) {
    this.#options = options;
    this.#leaseMs = options.leaseMs ?? LEASE_MS;
    this.#witness = options.witness ?? memoryWitness();
  }

  holds(process: number): boolean {
    return this.#session?.process === process;
  }

  async register(roles: readonly string[]): Promise<{ readonly process: number; readonly leaseMs: number }> {
    await this.#leave();
    const client = await this.#connect();
    try {
      await this.#checkStore(client);
      const process = await askRecord<number>(client, REGISTER_PROCESS, [roles, this.#leaseMs]);
      this.#witness.remember(await askRecord<number>(client, STORE_MARK, []));
      this.#hold({ client, process });
      return { process, leaseMs: this.#leaseMs };
    } catch (thrown) {
      await end(client);
      throw thrown;
    }
  }

  async heartbeat(process: number): Promise<void> {
    const session = this.#session;
    if (session?.process === process) {
      await this.#renew(session);
      return;
    }
    if (this.#seeking?.process !== process) {
      throw new PlatformError("stale_generation", "This process was declared dead.");
    }
    await this.#retake(process);
  }

  /**
   * Tells what a worker says it holds. A generation that the record has not given out yet means that the record is an
   * older copy: a new era opens, and this process has to begin anew.
   */
  async judgeSessions(
    held: readonly { readonly conversationId: string; readonly generation: number }[],
  ): Promise<void> {
    if (held.length === 0) {
      return;
    }
    const { database, log } = this.#options;
    const ahead = await askRecord<boolean>(database, SESSIONS_AHEAD, [
      held.map((each) => each.conversationId),
      held.map((each) => each.generation),
    ]);
    if (ahead) {
      log.warn("a worker knows of a newer generation than the record: a new era opens");
      await askRecord<number>(database, OPEN_ERA, ["worker_ahead", this.#witness.place]);
    }
  }

  async sweep(process: number): Promise<number> {
    const { database, live } = this.#options;
    if (!this.holds(process)) {
      return 0;
    }
    const buriedCount = await askRecord<number>(database, BURY_PROCESSES, [process, this.#leaseMs]);
    if (buriedCount < 0) {
      throw new PlatformError("stale_generation", "This process was declared dead.");
    }
    await endAbandoned(this.#options, process);
    await closeLostCalls(database, live);
    await carryOut(this.#options, CARRY_OUT_COUNT);
    this.#sweepCount += 1;
    if (this.#sweepCount % FORGET_EVERY_SWEEPS === 0) {
      await readRows(database, FORGET_PROCESSES, []);
    }
    return buriedCount;
  }

  async unregister(process: number): Promise<void> {
    const { database, live } = this.#options;
    try {
      await readRows(database, UNREGISTER_PROCESS, [process]);
      await closeLostCalls(database, live);
    } finally {
      if (this.#session?.process === process || this.#seeking?.process === process) {
        await this.#leave();
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#leave();
  }

  /** Before anything is claimed or decided on a session that is new. */
  async #checkStore(client: Client): Promise<void> {
    const { place, markMs } = this.#witness;
    const era = await askRecord<number>(client, CHECK_STORE, [place, markMs()]);
    if (this.#era !== null && era !== this.#era) {
      this.#options.log.warn("the store is not what it was: a new era has begun", { era });
    }
    this.#era = era;
  }

  async #connect(): Promise<Client> {
    try {
      return await this.#options.connect();
    } catch (thrown) {
      throw translateDatabaseError(thrown);
    }
  }

  #hold(session: Session): void {
    const lost = (): void => this.#lose(session);
    session.client.once("error", lost);
    session.client.once("end", lost);
    this.#session = session;
  }

  /** From here on `holds` is false, until the lock is ours again. */
  #lose(session: Session): void {
    if (this.#session !== session) {
      return;
    }
    this.#session = null;
    const { process } = session;
    this.#options.log.warn("the session that carries this process's presence is lost", { process });
    const stop = new AbortController();
    const ended = this.#seek(process, stop.signal).then(() => end(session.client));
    this.#seeking = { process, stop, ended };
  }

  async #renew(session: Session): Promise<void> {
    let alive: boolean;
    try {
      alive = await askRecord<boolean>(session.client, RENEW_PROCESS, [session.process, this.#leaseMs]);
      if (alive) {
        this.#witness.remember(await askRecord<number>(session.client, STORE_MARK, []));
      }
    } catch (thrown) {
      this.#lose(session);
      throw thrown;
    }
    if (!alive) {
      await this.#leave();
      throw new PlatformError("stale_generation", "This process was declared dead.");
    }
  }

  async #seek(process: number, signal: AbortSignal): Promise<void> {
    for (let delayMs = 0; !signal.aborted; delayMs = Math.min(delayMs * 2 + RETAKE_FIRST_MS, RETAKE_CAP_MS)) {
      await pause(delayMs, signal);
      if (signal.aborted || this.holds(process)) {
        return;
      }
      try {
        await this.#retake(process);
        return;
      } catch (thrown) {
        if (translateDatabaseError(thrown).code === "stale_generation") {
          this.#options.log.warn("this process was declared dead while it had no session", { process });
          return;
        }
      }
    }
  }

  /** Ends with `stale_generation` when the process was declared dead, with `database_unavailable` when nobody knows. */
  async #retake(process: number): Promise<void> {
    const client = await this.#connect();
    let answer: "held" | "dead" | "busy" = "busy";
    try {
      await this.#checkStore(client);
      answer = await askRecord<"held" | "dead" | "busy">(client, RETAKE_PRESENCE, [process, this.#leaseMs]);
    } finally {
      if (answer !== "held") {
        await end(client);
      }
    }
    const wanted = this.#seeking?.process === process && this.#session === null;
    if (answer === "held" && wanted) {
      this.#hold({ client, process });
      this.#options.log.info("this process has its presence again", { process });
    } else if (answer === "held") {
      await end(client);
    } else if (answer === "dead") {
      this.#seeking = null;
      throw new PlatformError("stale_generation", "This process was declared dead.");
    } else {
      throw new PlatformError("database_unavailable", "The presence of this process is not free yet.");
    }
  }

  async #leave(): Promise<void> {
    const session = this.#session;
    const seeking = this.#seeking;
    this.#session = null;
    this.#seeking = null;
    seeking?.stop.abort();
    await seeking?.ended;
    if (session !== null) {
      await end(session.client);
    }
  }
}

/** Runs that are to end need no worker for it, so those of the dead are ended here. */
async function endAbandoned(
  { database, live }: Pick<ProcessRecordOptions, "database" | "live">,
  process: number,
): Promise<void> {
  const ended = await readRows<{ readonly conversationId: string; readonly sequence: number }>(
    database,
    END_ABANDONED,
    [process],
  );
  for (const { conversationId, sequence } of ended) {
    live.ring(conversationId, sequence);
    live.ringGates(conversationId);
  }
  // Behind each of them the next one in line may begin.
  if (ended.length > 0) live.ringSupervisors();
}

/** Each in a transaction of its own, so that no two conversations are locked together. */
async function closeLostCalls(database: Queryable, live: Pick<LiveChannel, "ring">): Promise<void> {
  const lost = await readRows<{ readonly kind: "model" | "tool"; readonly id: string }>(database, LOST_CALLS, [
    LOST_CALL_COUNT,
  ]);
  for (const { kind, id } of lost) {
    const { conversationId, sequence } = await askRecord<{
      readonly conversationId: string;
      readonly sequence: number;
    }>(database, kind === "model" ? LOSE_MODEL_CALL : LOSE_TOOL_CALL, [id]);
    live.ring(conversationId, sequence);
  }
}

async function end(client: Client): Promise<void> {
  await client.end().catch(() => undefined);
}

function memoryWitness(): StoreWitness {
  let known = 0;
  return {
    place: null,
    markMs: () => known,
    remember: (markMs) => {
      known = markMs;
    },
  };
}
