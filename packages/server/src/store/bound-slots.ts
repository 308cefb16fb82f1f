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

const SLOTS_MAX = 2_000;

export class BoundSlots {
  readonly #known = new Map<string, BoundSnapshot>();

  note(tokenHash: string, { snapshot, snapshotHash }: BoundSnapshot): void {
    this.#known.delete(tokenHash);
    this.#known.set(tokenHash, { snapshot, snapshotHash });
    if (this.#known.size > SLOTS_MAX) {
      const [oldest] = this.#known.keys();
      this.#known.delete(oldest ?? "");
    }
  }

  find(tokenHash: string): BoundSnapshot | undefined {
    return this.#known.get(tokenHash);
  }
}
