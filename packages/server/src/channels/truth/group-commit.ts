/**
 * Events of many conversations in one commit. A writer alone is served at once; while a batch is being committed the
 * next one gathers, and under load batches keep a distance. Each conversation has at most one batch on its way, so its
 * events stay in order. A failed batch is tried again conversation by conversation: one that cannot be stored must not
 * fail the others.
 */
import { asPlatformError, PlatformError, wellFormed, type OwnerEvent } from "@signalbox/contract";
import type { LiveChannel, Log } from "@signalbox/core";
import { jsonText, readRows, type Queryable, type RecordValue } from "../../store/record-call.ts";
import { APPEND_FEW, APPEND_GROUP, NOTE_STALE } from "../../store/statements/record-statements.ts";

export interface GroupCommitOptions {
  /** Connects as `signalbox_run`. */
  readonly database: Queryable;
  readonly live: Pick<LiveChannel, "ring">;
  readonly log: Log;
  /** Distance between the starts of two batches while there is much to write. */
  readonly windowMs?: number;
  readonly batchEvents?: number;
  readonly batchesInFlight?: number;
}

export interface EventTarget {
  readonly conversationId: string;
  readonly runId: string;
  readonly generation: number;
}

interface Waiting extends EventTarget {
  readonly turnId: string | null;
  readonly events: readonly OwnerEvent[];
  readonly done: PromiseWithResolvers<void>;
}

/** What goes into one batch for one conversation: its oldest entries of one owner. */
interface Share extends EventTarget {
  readonly entries: readonly Waiting[];
}

const WINDOW_MS = 20;
const BATCH_EVENTS = 500;
const BATCHES_IN_FLIGHT = 2;
/** A batch of this many conversations means load: the next one waits for company. */
const BUSY_CONVERSATIONS = 16;
/** Up to here a prepared plan is better than one made for the batch. */
const FEW_CONVERSATIONS = 8;

export class GroupCommit implements AsyncDisposable {
  readonly #options: Required<GroupCommitOptions>;
  readonly #queues = new Map<string, Waiting[]>();
  readonly #inFlight = new Map<string, Promise<void>>();
  readonly #batches = new Set<Promise<void>>();
  readonly #notes = new Set<Promise<void>>();
  #startedAtMs = Number.NEGATIVE_INFINITY;
  #distanceMs = 0;
  #timer: NodeJS.Timeout | null = null;
  #scheduled = false;
  #closed = false;

  constructor(options: GroupCommitOptions) {
    this.#options = {
      windowMs: WINDOW_MS,
      batchEvents: BATCH_EVENTS,
      batchesInFlight: BATCHES_IN_FLIGHT,
      ...options,
    };
  }

  /** Resolves once the events are durable; rejects with `stale_generation` when their owner is no longer the owner. */
  append(target: EventTarget, events: readonly OwnerEvent[], turnId: string | null): Promise<void> {
    if (this.#closed) {
      return Promise.reject(new PlatformError("shutting_down"));
    }
    if (events.length === 0) {
      return Promise.resolve();
    }
    const done = Promise.withResolvers<void>();
    const { conversationId, runId, generation } = target;
    const queue = this.#queues.get(conversationId) ?? [];
    queue.push({ conversationId, runId, generation, turnId, events, done });
    this.#queues.set(conversationId, queue);
    this.#schedule();
    return done.promise;
  }

  /** Resolves once nothing of this conversation is waiting or on its way, whatever became of it. */
  async settled(conversationId: string): Promise<void> {
    for (;;) {
      const waiting = this.#queues.get(conversationId)?.at(-1)?.done.promise ?? this.#inFlight.get(conversationId);
      if (waiting === undefined) {
        return;
      }
      await waiting.catch(() => undefined);
    }
  }

  /** Takes no more and waits until what it has taken is committed or refused. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    while (this.#queues.size > 0 || this.#batches.size > 0) {
      this.#cancelTimer();
      this.#start();
      await Promise.all(this.#batches);
    }
    this.#cancelTimer();
    await Promise.all(this.#notes);
  }

  /** Everything that is appended in this turn of the event loop goes together. */
  #schedule(): void {
    if (this.#scheduled) {
      return;
    }
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#pace();
    });
  }

  #pace(): void {
    if (this.#queues.size === 0 || this.#timer !== null || this.#batches.size >= this.#options.batchesInFlight) {
      return;
    }
    const waitMs = this.#startedAtMs + this.#distanceMs - performance.now();
    if (waitMs <= 0) {
      this.#start();
      return;
    }
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#start();
    }, waitMs);
  }

  #cancelTimer(): void {
    if (this.#timer !== null) {
      clearTimeout(this.#timer);
      this.#timer = null;
    }
  }

  #start(): void {
    const shares = this.#take();
    if (shares.length === 0) {
      return;
    }
    this.#startedAtMs = performance.now();
    this.#distanceMs = shares.length >= BUSY_CONVERSATIONS ? this.#options.windowMs : 0;
    const batch = this.#commit(shares).finally(() => {
      this.#batches.delete(batch);
      for (const { conversationId } of shares) {
        this.#inFlight.delete(conversationId);
      }
      this.#pace();
    });
    this.#batches.add(batch);
    for (const { conversationId } of shares) {
      this.#inFlight.set(conversationId, batch);
    }
  }

  #take(): readonly Share[] {
    const shares: Share[] = [];
    let room = this.#options.batchEvents;
    for (const [conversationId, queue] of this.#queues) {
      if (room <= 0) {
        break;
      }
      if (this.#inFlight.has(conversationId)) {
        continue;
      }
      const share = shareOf(queue, room);
      if (share === null) {
        continue;
      }
      queue.splice(0, share.entries.length);
      // Whoever has more to write goes behind the others.
      this.#queues.delete(conversationId);
      if (queue.length > 0) {
        this.#queues.set(conversationId, queue);
      }
      room -= countEvents(share);
      shares.push(share);
    }
    return shares;
  }

  /** Never rejects: every entry learns what became of it. */
  async #commit(shares: readonly Share[]): Promise<void> {
    try {
      this.#answer(shares, await this.#write(shares));
    } catch (thrown) {
      const error = asPlatformError(thrown);
      if (error.code === "database_unavailable" || shares.length === 1) {
        refuse(shares, error);
        return;
      }
      this.#options.log.warn("a batch of events failed and is tried again one by one", { shares: shares.length });
      for (const share of shares) {
        await this.#commit([share]);
      }
    }
  }

  async #write(shares: readonly Share[]): Promise<ReadonlyMap<string, number | null>> {
    const rows = await readRows<{ readonly conversationId: string; readonly sequence: number | null }>(
      this.#options.database,
      shares.length <= FEW_CONVERSATIONS ? APPEND_FEW : APPEND_GROUP,
      batchValues(shares),
    );
    return new Map(rows.map((row) => [row.conversationId, row.sequence]));
  }

  #answer(shares: readonly Share[], written: ReadonlyMap<string, number | null>): void {
    for (const share of shares) {
      const sequence = written.get(share.conversationId) ?? null;
      if (sequence === null) {
        refuse([share], new PlatformError("stale_generation"));
        this.#noteStale(share);
      } else {
        this.#options.live.ring(share.conversationId, sequence);
        share.entries.forEach(({ done }) => done.resolve());
      }
    }
  }

  /** The refusal is audited beside the batch, which must not wait for it. */
  #noteStale({ conversationId, runId, generation }: Share): void {
    const note = readRows(this.#options.database, NOTE_STALE, [conversationId, runId, generation, "append"])
      .then(() => undefined)
      .catch((thrown: unknown) => {
        this.#options.log.error("a refused append could not be audited", thrown, { runId, generation });
      })
      .finally(() => this.#notes.delete(note));
    this.#notes.add(note);
  }
}

function shareOf(queue: readonly Waiting[], room: number): Share | null {
  const [first] = queue;
  if (first === undefined) {
    return null;
  }
  const { conversationId, runId, generation } = first;
  const entries: Waiting[] = [];
  let count = 0;
  for (const entry of queue) {
    const fits = entries.length === 0 || count + entry.events.length <= room;
    if (!fits || entry.runId !== runId || entry.generation !== generation) {
      break;
    }
    entries.push(entry);
    count += entry.events.length;
  }
  return { conversationId, runId, generation, entries };
}

function countEvents(share: Share): number {
  return share.entries.reduce((count, entry) => count + entry.events.length, 0);
}

function refuse(shares: readonly Share[], error: PlatformError): void {
  for (const share of shares) {
    share.entries.forEach(({ done }) => done.reject(error));
  }
}

function batchValues(shares: readonly Share[]): readonly RecordValue[] {
  const items: string[] = [];
  const revisions: number[] = [];
  const types: string[] = [];
  const turns: (string | null)[] = [];
  const data: string[] = [];
  for (const { entries } of shares) {
    for (const { events, turnId } of entries) {
      for (const event of events) {
        items.push(wellFormed(event.itemId));
        revisions.push(event.revision);
        types.push(event.type);
        turns.push(turnId);
        data.push(jsonText(event.data));
      }
    }
  }
  return [
    shares.map((share) => share.conversationId),
    shares.map((share) => share.runId),
    shares.map((share) => share.generation),
    shares.map((share) => countEvents(share)),
    items,
    revisions,
    types,
    turns,
    data,
  ];
}
