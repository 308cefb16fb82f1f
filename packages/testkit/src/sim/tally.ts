/** Counts how often something happened, for behaviour that is meant for the first few times. Bounded: the oldest counts go. */
export interface Tally {
  /** The number of earlier times. */
  next(key: string): number;
}

const MOST_KEYS = 10_000;

export function newTally(): Tally {
  const counts = new Map<string, number>();
  return {
    next(key) {
      const count = counts.get(key) ?? 0;
      counts.delete(key);
      counts.set(key, count + 1);
      const oldest = counts.size > MOST_KEYS ? counts.keys().next().value : undefined;
      if (oldest !== undefined) {
        counts.delete(oldest);
      }
      return count;
    },
  };
}
