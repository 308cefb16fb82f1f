/**
 * Snapshots of the slots that this process has bound, by the hash of their token: the gates beside it need not ask the
 * record before they look at a first request. A hint and no permission: every intent's statement answers with the slot
 * as it is. Bounded: the one that was bound the longest ago goes first.
 */
import type { Snapshot } from "@signalbox/contract";

export interface BoundSnapshot {
  readonly snapshot: Snapshot;
  readonly snapshotHash: string;
}

/** What a slot was bound to. */
export interface Binding extends BoundSnapshot {
  readonly conversationId: string;
  readonly generation: number;
}

const SLOTS_MAX = 2_000;

export class BoundSlots {
  readonly #known = new Map<string, Binding>();

  /** The record has this binding: the transaction that made it was committed. */
  note(tokenHash: string, { snapshot, snapshotHash, conversationId, generation }: Binding): void {
    this.#known.delete(tokenHash);
    this.#known.set(tokenHash, { snapshot, snapshotHash, conversationId, generation });
    if (this.#known.size > SLOTS_MAX) {
      const [oldest] = this.#known.keys();
      this.#known.delete(oldest ?? "");
    }
  }

  /** Whether the slot was bound under this generation already. */
  has(tokenHash: string, { conversationId, generation }: Omit<Binding, keyof BoundSnapshot>): boolean {
    const known = this.#known.get(tokenHash);
    return known?.conversationId === conversationId && known.generation === generation;
  }

  find(tokenHash: string): BoundSnapshot | undefined {
    return this.#known.get(tokenHash);
  }
}
