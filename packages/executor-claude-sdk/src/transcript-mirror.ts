/**
 * What the engine writes to its transcript, made durable through the record gate as it comes. The engine itself would
 * retry, give up and carry on when a write fails; so a write that is refused because the conversation has another
 * owner is reported from here, at once, and nothing is written after it.
 */
import { asPlatformError, PlatformError, type ErrorCode } from "@signalbox/contract";
import type { TranscriptLog } from "@signalbox/worker";
import { compactionIn, entryOf, isBookkeeping, type TranscriptRow } from "./transcript-row.ts";

export interface MirrorKey {
  readonly sessionId: string;
  /** Absent for the main stream. */
  readonly subpath?: string;
}

export interface MirrorOptions {
  readonly log: Pick<TranscriptLog, "append">;
  readonly sessionId: string;
  readonly leaf: string | null;
  readonly sizeBytes: number;
  /** The session may not go on: somebody else owns the conversation, or a row could not be kept. */
  readonly onRefused: (code: ErrorCode, detail: string) => void;
}

const FENCED: ReadonlySet<ErrorCode> = new Set(["stale_generation", "slot_unknown", "run_cancelled", "run_stopped"]);

export class TranscriptMirror {
  readonly #options: MirrorOptions;
  /** Last entry by stream, for the ids of rows that have none. */
  readonly #lastEntry = new Map<string, string | null>();
  #sizeBytes: number;
  #isTurnOpen = false;
  #isClosed = false;
  #tail: Promise<void> = Promise.resolve();

  constructor(options: MirrorOptions) {
    this.#options = options;
    this.#lastEntry.set("", options.leaf);
    this.#sizeBytes = options.sizeBytes;
  }

  /** Last durable entry of the main stream. */
  get leaf(): string | null {
    return this.#lastEntry.get("") ?? null;
  }

  get sizeBytes(): number {
    return this.#sizeBytes;
  }

  openTurn(): void {
    this.#isTurnOpen = true;
  }

  /** From here on a row without an id is no part of any turn; it is accepted and dropped. */
  closeTurn(): void {
    this.#isTurnOpen = false;
  }

  /** Nothing more is written. What the engine still says while it leaves is accepted and dropped. */
  close(): void {
    this.#isClosed = true;
  }

  /** Resolves when the rows are durable. Rows are written in the order they came, one batch at a time. */
  async append(key: MirrorKey, rows: readonly TranscriptRow[]): Promise<void> {
    const written = this.#tail.then(async () => this.#write(key, rows));
    this.#tail = written.catch(() => undefined);
    return written;
  }

  /** Resolves when everything accepted so far is durable or refused. */
  async idle(): Promise<void> {
    await this.#tail;
  }

  async #write(key: MirrorKey, rows: readonly TranscriptRow[]): Promise<void> {
    const kept = rows.filter((row) => row.uuid !== undefined || (this.#isTurnOpen && !isBookkeeping(row)));
    if (this.#isClosed || kept.length === 0) {
      return;
    }
    if (key.sessionId !== this.#options.sessionId) {
      this.#refuse("transcript_not_durable", "The engine left the session it was opened for.");
    }
    const stream = key.subpath ?? "";
    let last = this.#lastEntry.get(stream) ?? null;
    const entries = kept.map((row) => {
      const entry = entryOf(row, stream, last);
      last = entry.entryId;
      return entry;
    });
    try {
      await this.#options.log.append(entries, stream === "" ? compactionIn(kept) : undefined);
    } catch (thrown) {
      const error = asPlatformError(thrown);
      if (FENCED.has(error.code)) {
        this.#refuse(error.code, error.detail);
      }
      throw error;
    }
    this.#lastEntry.set(stream, last);
    this.#sizeBytes += entries.reduce((sum, entry) => sum + entry.body.length, 0);
  }

  #refuse(code: ErrorCode, detail: string): never {
    this.#isClosed = true;
    this.#options.onRefused(code, detail);
    throw new PlatformError(code, detail);
  }
}
