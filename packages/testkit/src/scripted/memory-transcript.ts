/**
 * A transcript with the rules of the record gate and no database: one generation may append, an owner
 * sees what was finalized and what it wrote itself, finalization moves the leaf and cuts what others left behind.
 */
import { PlatformError } from "@signalbox/contract";
import type { Compaction, TranscriptEntry, TranscriptLog } from "@signalbox/worker";

interface Row {
  generation: number;
  readonly entry: TranscriptEntry;
  readonly finalized: boolean;
}

/**
 * The transcript of one conversation; begins empty, at generation 1. Appending and loading under any other than the
 * present generation ends with `stale_generation`.
 */
export class MemoryTranscript {
  #rows: readonly Row[] = [];
  #generation = 1;
  #leaf: string | null = null;
  #appendCount = 0;
  /** The last one that was appended; it counts once its turn is finished. */
  #compaction: Compaction | null = null;

  get generation(): number {
    return this.#generation;
  }

  /** Last finalized entry of the main stream. */
  get leaf(): string | null {
    return this.#leaf;
  }

  /** Calls of `append` that were committed. */
  get appendCount(): number {
    return this.#appendCount;
  }

  get sizeBytes(): number {
    return this.#rows.reduce((sum, row) => sum + row.entry.body.byteLength, 0);
  }

  /** What the present owner may continue from. */
  get visible(): readonly TranscriptEntry[] {
    return this.#rows.filter((row) => row.finalized || row.generation === this.#generation).map((row) => row.entry);
  }

  /**
   * Ownership changes: whoever held the transcript before can append no more. With `adopt` what it left of its turn is
   * the new owner's.
   */
  claim(options: { readonly adopt?: boolean } = {}): number {
    const before = this.#generation;
    this.#generation += 1;
    for (const row of this.#rows) {
      if (options.adopt === true && row.generation === before && !row.finalized) row.generation = this.#generation;
    }
    return this.#generation;
  }

  /** Last entry of the main stream that the present owner sees. */
  get tail(): string | null {
    return this.visible.findLast((entry) => entry.stream === "")?.entryId ?? null;
  }

  /** What the ledger says of tool calls, by their ids. */
  readonly outcomes = new Map<string, { readonly state: string; readonly resultJson: string }>();

  /** The turn of the present owner is over: what it appended becomes the place to continue from. */
  finalize(): void {
    const own = this.#rows.filter((row) => row.generation === this.#generation && !row.finalized);
    const kept = this.#rows.filter((row) => row.finalized || row.generation === this.#generation);
    const newestState = new Map<string, string>();
    for (const { entry } of kept) {
      if (entry.kind === "state") newestState.set(entry.stream, entry.entryId);
    }
    const isLeftBehind = ({ finalized, entry }: Row): boolean =>
      finalized &&
      entry.kind === "item" &&
      entry.stream === "" &&
      own.some((row) => row.entry.entryId === this.#compaction?.entryId) &&
      this.#compaction?.keptEntryIds.includes(entry.entryId) === false;
    this.#rows = kept
      .filter((row) => !isLeftBehind(row))
      .filter(({ entry }) => entry.kind === "item" || newestState.get(entry.stream) === entry.entryId)
      .map((row) => ({ ...row, finalized: true }));
    this.#leaf = own.findLast(({ entry }) => entry.stream === "")?.entry.entryId ?? this.#leaf;
  }

  /** The record gate as the owner of `generation` sees it, by default the present one. */
  log(generation: number = this.#generation): TranscriptLog {
    return {
      append: async (entries, compaction) => this.append(entries, generation, compaction),
      replaceTail: async (behind, entries) => {
        this.#demand(generation);
        const place = this.#rows.findIndex(({ entry }) => entry.stream === "" && entry.entryId === behind);
        if (place < 0) throw new PlatformError("transcript_corrupt");
        this.#rows = this.#rows.filter((row, at) => at <= place || row.finalized || row.generation !== generation);
        this.append(entries, generation);
      },
      outcomes: async (toolUseIds) => {
        this.#demand(generation);
        return toolUseIds.flatMap((toolUseId) => {
          const found = this.outcomes.get(toolUseId);
          return found === undefined ? [] : [{ toolUseId, ...found }];
        });
      },
      load: async () => {
        this.#demand(generation);
        return this.visible;
      },
    };
  }

  /** Puts other entries in place of all there are: what a damaged store would answer. */
  replace(entries: readonly TranscriptEntry[]): void {
    this.#rows = entries.map((entry) => ({ generation: this.#generation, entry, finalized: true }));
  }

  append(entries: readonly TranscriptEntry[], generation: number, compaction?: Compaction): void {
    this.#demand(generation);
    if (compaction !== undefined) this.#compaction = compaction;
    const known = new Set(this.#rows.map(({ entry }) => `${entry.stream} ${entry.entryId}`));
    const fresh = entries.filter((entry) => !known.has(`${entry.stream} ${entry.entryId}`));
    this.#rows = [...this.#rows, ...fresh.map((entry) => ({ generation, entry, finalized: false }))];
    this.#appendCount += 1;
  }

  #demand(generation: number): void {
    if (generation !== this.#generation) {
      throw new PlatformError("stale_generation");
    }
  }
}
