/** Medians and percentiles: identical runs differ, so nothing here is ever a single run. */

/** The smallest value that is not below `share` of all; NaN of nothing. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

export function median(values: readonly number[]): number {
  return percentile(values, 0.5);
}

/** Median of the differences of runs that were made next to each other. */
export function medianOfPairs(left: readonly number[], right: readonly number[]): number {
  return median(left.slice(0, right.length).map((value, at) => value - (right[at] ?? Number.NaN)));
}

export function ms(value: number): string {
  return `${value.toFixed(value < 100 ? 2 : 0)} ms`;
}

/** `p50 12.30 ms, p95 15.02 ms` */
export function spread(values: readonly number[]): string {
  return `p50 ${ms(median(values))}, p95 ${ms(percentile(values, 0.95))}`;
}

export function rounded(value: number): number {
  return Number(value.toPrecision(4));
}
