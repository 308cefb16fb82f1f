/**
 * Virtual time. Nothing happens by itself: every step of the simulation is an entry here, and between two entries all
 * code that can go on does go on. An entry may belong to a life; if that life is over it never happens, and while it is
 * stalled it waits.
 */
export interface Life {
  readonly name: string;
  alive: boolean;
  stalledUntilMs: number;
}

interface Entry {
  readonly atMs: number;
  readonly serial: number;
  readonly life: Life | null;
  readonly run: () => void;
}

export class Scheduler {
  nowMs = 0;
  #serial = 0;
  /** Sorted, the next one last. */
  readonly #entries: Entry[] = [];

  after(delayMs: number, life: Life | null, run: () => void): void {
    this.#insert({ atMs: this.nowMs + Math.max(delayMs, 0), serial: (this.#serial += 1), life, run });
  }

  /** Runs until `done` says so, nothing is left, or the time limit is reached. Tells whether it was `done`. */
  async run(done: () => boolean, limitMs: number): Promise<boolean> {
    while (!done()) {
      const entry = this.#entries.at(-1);
      if (entry === undefined || entry.atMs > limitMs) return false;
      this.#entries.pop();
      this.nowMs = Math.max(this.nowMs, entry.atMs);
      const { life } = entry;
      if (life !== null && !life.alive) continue;
      if (life !== null && life.stalledUntilMs > this.nowMs) {
        this.#insert({ ...entry, atMs: life.stalledUntilMs });
        continue;
      }
      entry.run();
      await everythingElse();
    }
    return true;
  }

  #insert(entry: Entry): void {
    let low = 0;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const other = this.#entries[middle];
      if (other !== undefined && isBefore(entry, other)) low = middle + 1;
      else high = middle;
    }
    this.#entries.splice(low, 0, entry);
  }
}

function isBefore(left: Entry, right: Entry): boolean {
  return left.atMs < right.atMs || (left.atMs === right.atMs && left.serial < right.serial);
}

/** Lets all code that waits for nothing but a promise run to its next wait. */
function everythingElse(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}
