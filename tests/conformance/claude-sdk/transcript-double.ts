import { PlatformError } from "@signalbox/contract";
import type { CallOutcome, Compaction, TranscriptEntry, TranscriptLog } from "@signalbox/worker";

/** A record gate's answers without a record: keeps entries in order, and refuses when the test says so. */
export class TranscriptDouble implements TranscriptLog {
  readonly entries: TranscriptEntry[] = [];
  /** What the next appends end with; nothing while they are accepted. */
  refusal: PlatformError | null = null;

  /** The engine's word that it begins anew, as often as it has said so. */
  readonly compactions: Compaction[] = [];

  async append(entries: readonly TranscriptEntry[], compaction?: Compaction): Promise<void> {
    if (this.refusal !== null) {
      throw this.refusal;
    }
    for (const entry of entries) {
      if (this.entries.some((known) => known.stream === entry.stream && known.entryId === entry.entryId)) {
        throw new PlatformError("internal", `entry ${entry.entryId} was appended twice`);
      }
      this.entries.push(entry);
    }
    if (compaction !== undefined) {
      this.compactions.push(compaction);
    }
  }

  /** What the ledger says of tool calls. */
  readonly ledger: CallOutcome[] = [];

  async replaceTail(behind: string, entries: readonly TranscriptEntry[]): Promise<void> {
    const place = this.entries.findIndex((entry) => entry.stream === "" && entry.entryId === behind);
    if (place < 0) {
      throw new PlatformError("transcript_corrupt");
    }
    this.entries.splice(place + 1);
    await this.append(entries);
  }

  async outcomes(toolUseIds: readonly string[]): Promise<readonly CallOutcome[]> {
    return this.ledger.filter((each) => toolUseIds.includes(each.toolUseId));
  }

  async load(): Promise<readonly TranscriptEntry[]> {
    return this.entries;
  }

  get leaf(): string | null {
    return this.entries.findLast((entry) => entry.stream === "")?.entryId ?? null;
  }

  rows(): readonly Readonly<Record<string, unknown>>[] {
    return this.entries.map((entry) => JSON.parse(new TextDecoder().decode(entry.body)) as Record<string, unknown>);
  }
}
