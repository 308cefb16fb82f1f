/**
 * Makes durable what a turn says. About every 100 ms what came becomes rows, more seldom while the record is slow; a
 * row that closes something does not wait. One append is in flight at a time, so rows keep their order.
 */
import { asPlatformError, type OwnerEvent, type PlatformError, type TurnId } from "@signalbox/contract";
import { createPendingRows, type PartDelta } from "../events/pending-rows.ts";
import type { Limits } from "../kernel/limits.ts";
import type { Cancellation, CancelSource, Clock } from "../ports/clock.ts";
import type { Ownership } from "../ports/ownership-record.ts";

export interface RowWriterOptions {
  readonly ownership: Pick<Ownership, "append">;
  readonly turnId: TurnId;
  readonly clock: Clock;
  readonly cancellation: Cancellation;
  readonly limits: Limits;
  /** The record refused: no row is written any more. */
  readonly onRefused: (error: PlatformError) => void;
}

export class RowWriter implements AsyncDisposable {
  readonly #options: RowWriterOptions;
  readonly #rows = createPendingRows();
  #writing: Promise<void> | null = null;
  #pause: CancelSource | null = null;
  #hurried = false;
  #disposed = false;
  #refusal: PlatformError | null = null;
  #lastAppendAtMs = Number.NEGATIVE_INFINITY;

  constructor(options: RowWriterOptions) {
    this.#options = options;
  }

  part(delta: PartDelta): void {
    this.#rows.part(delta);
    this.#begin();
  }

  add(row: OwnerEvent): void {
    this.#rows.add(row);
    this.#begin();
  }

  close(row: OwnerEvent): void {
    this.#rows.close(row);
    this.#begin();
  }

  /** A promise to wait for while too much text is not durable, else `undefined`. */
  room(): Promise<void> | undefined {
    return this.#crowded && this.#writing !== null ? this.#writing : undefined;
  }

  /** Resolves once everything said is durable; rejects with what the record answered. */
  async durable(): Promise<void> {
    this.#hurried = true;
    this.#begin();
    await this.#writing;
    if (this.#refusal !== null) {
      throw this.#refusal;
    }
  }

  /** Drops what is not written and waits for the append in flight. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true;
    this.#pause?.abort();
    await this.#writing;
  }

  get #crowded(): boolean {
    return this.#rows.chars > this.#options.limits.unflushedChars;
  }

  get #pressing(): boolean {
    return this.#hurried || this.#disposed || this.#rows.urgent || this.#crowded;
  }

  get #mayWrite(): boolean {
    return this.#rows.rowCount > 0 && this.#refusal === null && !this.#disposed;
  }

  #begin(): void {
    if (this.#pressing) {
      this.#pause?.abort();
    }
    if (this.#writing === null && this.#mayWrite) {
      this.#writing = this.#write();
    }
  }

  async #write(): Promise<void> {
    const { ownership, turnId, clock, limits } = this.#options;
    while (this.#mayWrite) {
      await this.#pace();
      if (!this.#mayWrite) {
        break;
      }
      this.#lastAppendAtMs = clock.monotonicMs();
      try {
        await ownership.append(this.#rows.take(limits.appendCount), turnId);
      } catch (thrown) {
        this.#refusal = asPlatformError(thrown);
        this.#options.onRefused(this.#refusal);
      }
    }
    this.#writing = null;
  }

  async #pace(): Promise<void> {
    const { clock, cancellation, limits } = this.#options;
    const dueAtMs = Math.max(this.#lastAppendAtMs, clock.monotonicMs()) + limits.flushEveryMs;
    while (!this.#pressing && clock.monotonicMs() < dueAtMs) {
      this.#pause = cancellation.source();
      await clock.sleep(dueAtMs - clock.monotonicMs(), this.#pause.signal);
    }
    this.#pause = null;
  }
}
