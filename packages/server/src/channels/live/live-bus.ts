/**
 * The live channel inside one process: deltas and doorbells for whoever reads a conversation now. A reader that cannot
 * keep up loses what it has not taken and is told to read the log again.
 */
import type { LiveDelta } from "@signalbox/contract";
import type { LiveChannel, LiveHearing, LiveSignal, LiveSubscription } from "@signalbox/core";

/** Signals a reader may leave untaken. */
const SIGNALS = 1_024;

export class LiveBus implements LiveChannel, LiveHearing {
  readonly #readers = new Map<string, Set<Reader>>();
  readonly #supervisors = new Set<() => void>();
  readonly #everywhere = new Set<() => void>();
  readonly #gates = new Set<(conversationId: string | null) => void>();
  readonly #signalLimit: number;

  constructor(signalLimit: number = SIGNALS) {
    this.#signalLimit = signalLimit;
  }

  subscribe(conversationId: string): LiveSubscription {
    const readers = this.#readers.get(conversationId) ?? new Set();
    const reader = new Reader(this.#signalLimit, () => {
      readers.delete(reader);
      if (readers.size === 0 && this.#readers.get(conversationId) === readers) {
        this.#readers.delete(conversationId);
      }
    });
    readers.add(reader);
    this.#readers.set(conversationId, readers);
    return reader;
  }

  onSupervisorsRung(listener: () => void): () => void {
    this.#supervisors.add(listener);
    return () => this.#supervisors.delete(listener);
  }

  /** Whenever some log grew. */
  onRung(listener: () => void): () => void {
    this.#everywhere.add(listener);
    return () => this.#everywhere.delete(listener);
  }

  onGatesRung(listener: (conversationId: string | null) => void): () => void {
    this.#gates.add(listener);
    return () => this.#gates.delete(listener);
  }

  publish(delta: LiveDelta): void {
    const readers = this.#readers.get(delta.conversationId);
    if (readers !== undefined) {
      const signal: LiveSignal = { kind: "delta", delta };
      readers.forEach((reader) => reader.put(signal));
    }
  }

  ring(conversationId: string, sequence: number): void {
    this.#readers.get(conversationId)?.forEach((reader) => reader.ring(sequence));
    this.#everywhere.forEach((listener) => listener());
  }

  /** Something else than a new event: whoever reads this conversation looks again. */
  reread(conversationId: string): void {
    this.#readers.get(conversationId)?.forEach((reader) => reader.reread());
  }

  ringSupervisors(): void {
    this.#supervisors.forEach((listener) => listener());
  }

  ringGates(conversationId: string): void {
    this.#gates.forEach((listener) => listener(conversationId));
  }

  /** Doorbells may have been lost: everybody looks. */
  ringAll(): void {
    for (const readers of this.#readers.values()) {
      readers.forEach((reader) => reader.reread());
    }
    this.ringSupervisors();
    this.#gates.forEach((listener) => listener(null));
  }

  /** Conversations somebody reads now. */
  conversations(): readonly string[] {
    return [...this.#readers.keys()];
  }

  /** Ends every subscription. */
  close(): void {
    for (const readers of this.#readers.values()) {
      [...readers].forEach((reader) => reader.close());
    }
  }
}

class Reader implements LiveSubscription {
  readonly #limit: number;
  readonly #onClose: () => void;
  #signals: LiveSignal[] = [];
  #wake: (() => void) | null = null;
  #closed = false;

  constructor(limit: number, onClose: () => void) {
    this.#limit = limit;
    this.#onClose = onClose;
  }

  put(signal: LiveSignal): void {
    if (this.#closed) {
      return;
    }
    if (this.#signals.length >= this.#limit) {
      this.#signals = [{ kind: "reread" }];
    } else {
      this.#signals.push(signal);
    }
    this.#rouse();
  }

  /** One bell is as good as many: the newest one says it all. */
  ring(sequence: number): void {
    const last = this.#signals.at(-1);
    if (last?.kind === "bell") {
      this.#signals[this.#signals.length - 1] = { kind: "bell", sequence: Math.max(last.sequence, sequence) };
      return;
    }
    if (last?.kind !== "reread") {
      this.put({ kind: "bell", sequence });
    }
  }

  reread(): void {
    if (this.#signals.at(-1)?.kind !== "reread") {
      this.put({ kind: "reread" });
    }
  }

  close(): void {
    if (!this.#closed) {
      this.#closed = true;
      this.#signals = [];
      this.#onClose();
      this.#rouse();
    }
  }

  [Symbol.dispose](): void {
    this.close();
  }

  async *[Symbol.asyncIterator](): AsyncIterator<LiveSignal> {
    try {
      for (;;) {
        const signal = this.#signals.shift();
        if (signal !== undefined) {
          yield signal;
        } else if (this.#closed) {
          return;
        } else {
          const woken = Promise.withResolvers<void>();
          this.#wake = woken.resolve;
          await woken.promise;
        }
      }
    } finally {
      this.close();
    }
  }

  #rouse(): void {
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  }
}
