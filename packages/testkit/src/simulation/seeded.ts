/** Randomness from a seed: the same seed tells the same history. */
export interface Seeded {
  /** 0 ≤ result < 1. */
  fraction(): number;
  /** Whole number, `low` ≤ result ≤ `high`. */
  between(low: number, high: number): number;
  chance(probability: number): boolean;
  pick<T>(from: readonly T[]): T;
  bytes(count: number): Uint8Array;
  /** An independent stream, so that asking more in one place does not shift what another place gets. */
  fork(): Seeded;
}

export function createSeeded(seed: number): Seeded {
  let state = (seed ^ 0x9e3779b9) >>> 0;
  const next = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  };
  const fraction = (): number => next() / 2 ** 32;
  const between = (low: number, high: number): number => low + Math.floor(fraction() * (high - low + 1));
  return {
    fraction,
    between,
    chance: (probability) => fraction() < probability,
    pick(from) {
      const picked = from[between(0, from.length - 1)];
      if (picked === undefined) throw new Error("nothing to pick from");
      return picked;
    },
    bytes: (count) => Uint8Array.from({ length: count }, () => next() & 0xff),
    fork: () => createSeeded(next()),
  };
}
