/** Chance with a seed, so that a storm can be told apart from another one. */
export interface Dice {
  /** In [0, 1). */
  fraction(): number;
  between(low: number, high: number): number;
  one<Item>(items: readonly Item[]): Item;
}

export function diceOf(seed: number): Dice {
  let state = seed >>> 0;
  const fraction = (): number => {
    // Mulberry32: small, and good enough to choose whom to kill.
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  return {
    fraction,
    between: (low, high) => low + Math.floor(fraction() * (high - low + 1)),
    one(items) {
      const item = items[Math.floor(fraction() * items.length)];
      if (item === undefined) throw new Error("there is nothing to choose from");
      return item;
    },
  };
}
