/** The fencing token. Grows at every claim, takeover, change of worker and release, so no number is valid twice. */
export const FIRST_GENERATION = 0;

export function nextGeneration(generation: number): number {
  return generation + 1;
}

/** Whether a write that presents `mine` may change anything. Newer than current is as wrong as older. */
export function isCurrent(mine: number, current: number): boolean {
  return mine === current;
}
