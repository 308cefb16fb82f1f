/**
 * Appends to one transcript, one batch at a time. Whatever is asked for while a batch is on its way, or within one
 * pass of the event loop, leaves together: the writes of a node and the checkpoint that takes them in are one append.
 */
import type { TranscriptEntry, TranscriptLog } from "@signalbox/worker";

export class TranscriptWriter {
  readonly #log: TranscriptLog;
  /** Hands over what has to be written, when it is time to write. Whatever it handed over is not handed over again. */
  readonly #collect: () => readonly TranscriptEntry[];
  readonly #durable: (entries: readonly TranscriptEntry[]) => void;
  #waiting: Promise<void> | null = null;
  #writing: Promise<void> = Promise.resolve();
  #refused = false;

  constructor(
    log: TranscriptLog,
    collect: () => readonly TranscriptEntry[],
    durable: (entries: readonly TranscriptEntry[]) => void,
  ) {
    this.#log = log;
    this.#collect = collect;
    this.#durable = durable;
  }

  /** Whether a write failed: what is in memory and what is durable may differ from then on. */
  get refused(): boolean {
    return this.#refused;
  }

  /** Resolves when everything there is to write now is durable. After a failure nothing is written any more. */
  flush(): Promise<void> {
    this.#waiting ??= this.#next();
    return this.#waiting;
  }

  /** Resolves when nothing is on its way. */
  async idle(): Promise<void> {
    await Promise.allSettled([this.#waiting, this.#writing]);
  }

  async #next(): Promise<void> {
    const before = this.#writing;
    await new Promise((resolve) => setImmediate(resolve));
    await before;
    this.#waiting = null;
    this.#writing = this.#write();
    return this.#writing;
  }

  async #write(): Promise<void> {
    try {
      const entries = this.#collect();
      if (entries.length > 0) {
        await this.#log.append(entries);
        this.#durable(entries);
      }
    } catch (error) {
      this.#refused = true;
      throw error;
    }
  }
}
