/**
 * Snapshots by slot, kept so that a model call needs one statement before it leaves and not two. Nothing is decided by
 * what is kept here alone: the intent's statement answers with the slot as it is, and a snapshot that is no longer the
 * slot's is read and judged again.
 */
import type { Snapshot } from "@signalbox/contract";
import type { GateRecord, SlotView } from "@signalbox/core";

export interface KnownSnapshot {
  readonly snapshot: Snapshot;
  readonly snapshotHash: string;
}

/** A snapshot the process knows without asking, because it bound the slot itself. */
export type BoundHere = (tokenHash: string) => KnownSnapshot | undefined;

const SLOTS_MAX = 2_000;

export class SlotSnapshots {
  readonly #record: Pick<GateRecord, "slot">;
  readonly #boundHere: BoundHere;
  readonly #known = new Map<string, KnownSnapshot>();

  constructor(record: Pick<GateRecord, "slot">, boundHere: BoundHere = () => undefined) {
    this.#record = record;
    this.#boundHere = boundHere;
  }

  /** Rejects with `slot_unknown` when there is no such slot. */
  async of(tokenHash: string): Promise<KnownSnapshot> {
    const known = this.#known.get(tokenHash) ?? this.#boundHere(tokenHash);
    if (known !== undefined) return known;
    const view = await this.#record.slot(tokenHash);
    this.learn(tokenHash, view);
    return view;
  }

  learn(tokenHash: string, { snapshot, snapshotHash }: SlotView): void {
    if (this.#known.get(tokenHash)?.snapshotHash === snapshotHash) return;
    this.#known.delete(tokenHash);
    if (this.#known.size >= SLOTS_MAX) {
      for (const oldest of this.#known.keys()) {
        this.#known.delete(oldest);
        break;
      }
    }
    this.#known.set(tokenHash, { snapshot, snapshotHash });
  }

  forget(tokenHash: string): void {
    this.#known.delete(tokenHash);
  }
}
