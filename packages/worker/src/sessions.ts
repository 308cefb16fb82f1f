/**
 * The sessions of a worker: one per conversation, opened, rebound and ended by the rules of generations. A lower
 * generation than this worker has seen is refused for ever; a higher one goes on with the warm session when nothing
 * has happened in between, and otherwise ends it and opens anew.
 */
import { createHash, randomBytes } from "node:crypto";
import { makeId, PlatformError, snapshotHashText, uuidV7Bytes, type Snapshot } from "@signalbox/contract";
import type { WorkerClock } from "./clock.ts";
import type { SessionContext, TranscriptLog } from "./executor.ts";
import { GENERATIONS_KEPT_MAX, SESSION_AGE_MAX_MS, SESSION_IDLE_MAX_MS } from "./limits.ts";
import type { WorkerLog } from "./log.ts";
import type { Runtimes } from "./runtimes.ts";
import { WorkerSession } from "./session.ts";
import { fencedTranscript } from "./session-transcript.ts";
import { readSnapshot, type SessionOrder } from "./wire.ts";

export interface SessionsOptions {
  readonly runtimes: Runtimes;
  readonly room: number;
  readonly clock: WorkerClock;
  readonly log: WorkerLog;
  /** The record gate of a session. */
  readonly transcript: (recordUrl: string, slotToken: string) => TranscriptLog;
  readonly idleMaxMs?: number;
  readonly ageMaxMs?: number;
}

export interface OpenedSession {
  readonly rebound: boolean;
  readonly slotHash: string;
  readonly leaf: string | null;
}

export class Sessions {
  readonly #options: SessionsOptions;
  readonly #sessions = new Map<string, WorkerSession>();
  /** Highest generation seen, by conversation, the longest untouched first. */
  readonly #generations = new Map<string, number>();
  /** What changes a conversation's session happens one after the other. */
  readonly #turns = new Map<string, Promise<unknown>>();
  readonly #ends = new Set<Promise<void>>();
  #draining = false;

  constructor(options: SessionsOptions) {
    this.#options = options;
  }

  /** Sessions that can still be asked for something. */
  get all(): readonly WorkerSession[] {
    return [...this.#sessions.values()];
  }

  /** How many steps may run at once; none while the worker drains. */
  get room(): number {
    return this.#draining ? 0 : this.#options.room;
  }

  open(order: SessionOrder): Promise<OpenedSession> {
    if (this.#draining) {
      return Promise.reject(new PlatformError("shutting_down", "This worker takes no new sessions."));
    }
    return this.#inTurn(order.conversationId, () => this.#open(order));
  }

  /** The session a step is asked of. */
  forStep(conversationId: string, generation: number): WorkerSession {
    const session = this.#current(conversationId, generation);
    if (this.#draining) {
      throw new PlatformError("shutting_down", "This worker starts no new steps.");
    }
    if (this.all.filter((each) => each.stepping && each !== session).length >= this.#options.room) {
      throw new PlatformError("no_worker", "This worker has no room for another step.");
    }
    return session;
  }

  find(conversationId: string, generation: number): WorkerSession {
    return this.#current(conversationId, generation);
  }

  terminate(conversationId: string, generation: number, reason: string): Promise<void> {
    return this.#inTurn(conversationId, async () => {
      this.#see(conversationId, generation);
      await this.#sessions.get(conversationId)?.end(reason);
    });
  }

  /** Parks what has been idle or alive for too long. The record has what is needed to open it again. */
  async reap(): Promise<void> {
    const nowMs = this.#options.clock.monotonicMs();
    const idleMaxMs = this.#options.idleMaxMs ?? SESSION_IDLE_MAX_MS;
    const ageMaxMs = this.#options.ageMaxMs ?? SESSION_AGE_MAX_MS;
    const due = this.all.filter(
      (each) => !each.stepping && (nowMs - each.usedAtMs >= idleMaxMs || nowMs - each.openedAtMs >= ageMaxMs),
    );
    await Promise.all(due.map((each) => each.end("parked")));
  }

  /** Ends every session, and waits for those that are ending already. */
  async endAll(reason: string): Promise<void> {
    await Promise.all([...this.all.map((each) => each.end(reason)), ...this.#ends]);
    await Promise.allSettled(this.#turns.values());
  }

  /** From now on nothing new begins. */
  drain(): void {
    this.#draining = true;
  }

  async #open(order: SessionOrder): Promise<OpenedSession> {
    this.#see(order.conversationId, order.generation);
    const snapshot = verifiedSnapshot(order);
    const { runtime, executor } = this.#options.runtimes.executor(snapshot.runtime);
    const slotHash = sha256Hex(order.slotToken);
    const warm = this.#sessions.get(order.conversationId);
    if (warm !== undefined) {
      const same = warm.slotHash === slotHash && warm.snapshotHash === order.snapshotHash && warm.runtime === runtime;
      const untouched = warm.leaf === order.leaf && !warm.stepping && !warm.ended;
      if (same && untouched && order.rung !== "rebuilt" && order.rung !== "repaired") {
        warm.rebind(order.generation);
        return { rebound: true, slotHash, leaf: warm.leaf };
      }
      await warm.end("opened anew under another generation");
    }
    const session = this.#newSession(order, { runtime, slotHash });
    this.#sessions.set(order.conversationId, session);
    try {
      await session.adopt(await executor.open(this.#context(order, { snapshot, session })));
    } catch (thrown) {
      await session.end("it could not be opened");
      throw thrown;
    }
    return { rebound: false, slotHash, leaf: session.leaf };
  }

  #newSession(order: SessionOrder, facts: { readonly runtime: string; readonly slotHash: string }): WorkerSession {
    return new WorkerSession({
      conversationId: order.conversationId,
      generation: order.generation,
      runtime: facts.runtime,
      snapshotHash: order.snapshotHash,
      slotHash: facts.slotHash,
      clock: this.#options.clock,
      log: this.#options.log,
      onEnding: (session) => this.#forget(session),
    });
  }

  #context(
    order: SessionOrder,
    parts: { readonly snapshot: Snapshot; readonly session: WorkerSession },
  ): SessionContext {
    const { clock } = this.#options;
    const lose: SessionContext["onLost"] = (...loss) => parts.session.lose(...loss);
    return {
      tenantId: order.tenantId,
      conversationId: order.conversationId,
      generation: order.generation,
      snapshot: parts.snapshot,
      snapshotHash: order.snapshotHash,
      slotToken: order.slotToken,
      gates: { model: order.gates.model, tool: order.gates.tool },
      continuity: { rung: order.rung, leaf: order.leaf, finalized: order.finalized, history: order.history },
      transcript: fencedTranscript(this.#options.transcript(order.gates.record, order.slotToken), lose),
      newItemId: () => makeId("item", uuidV7Bytes(clock.nowMs(), randomBytes(10))),
      onLost: lose,
    };
  }

  #forget(session: WorkerSession): void {
    if (this.#sessions.get(session.conversationId) === session) {
      this.#sessions.delete(session.conversationId);
    }
    // `end` hands out the promise of the end that is starting just now; it is remembered so that a drain waits for it.
    queueMicrotask(() => {
      const end = session.end("already ending").finally(() => this.#ends.delete(end));
      this.#ends.add(end);
    });
  }

  #current(conversationId: string, generation: number): WorkerSession {
    this.#see(conversationId, generation);
    const session = this.#sessions.get(conversationId);
    if (session === undefined || session.generation !== generation) {
      throw new PlatformError("session_unknown");
    }
    return session;
  }

  /** Refuses a generation lower than the highest this worker has seen of the conversation, and remembers a higher. */
  #see(conversationId: string, generation: number): void {
    const highest = this.#generations.get(conversationId) ?? 0;
    if (generation < highest) {
      throw new PlatformError("stale_generation", `This worker has seen generation ${highest} of the conversation.`);
    }
    this.#generations.delete(conversationId);
    this.#generations.set(conversationId, generation);
    if (this.#generations.size > GENERATIONS_KEPT_MAX) {
      for (const oldest of this.#generations.keys()) {
        if (!this.#sessions.has(oldest)) {
          this.#generations.delete(oldest);
          break;
        }
      }
    }
  }

  async #inTurn<T>(conversationId: string, work: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(conversationId) ?? Promise.resolve();
    const turn = before.then(work, work);
    this.#turns.set(conversationId, turn);
    try {
      return await turn;
    } finally {
      if (this.#turns.get(conversationId) === turn) {
        this.#turns.delete(conversationId);
      }
    }
  }
}

function verifiedSnapshot(order: SessionOrder): Snapshot {
  const snapshot = readSnapshot(order.snapshotJson);
  let hashed: string;
  try {
    hashed = sha256Hex(snapshotHashText(snapshot));
  } catch (cause) {
    throw new PlatformError("snapshot_mismatch", undefined, { cause });
  }
  if (hashed !== order.snapshotHash) {
    throw new PlatformError("snapshot_mismatch");
  }
  return snapshot;
}

function sha256Hex(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
