export interface BackoffOptions {
  readonly baseMs: number;
  readonly capMs: number;
  /** 0 ≤ fraction < 1, from the randomness port. */
  readonly fraction: number;
}

/** Wait before attempt `failureCount + 1`: doubles up to the cap, plus up to half of it again, so that it never shrinks. */
export function backoffMs(failureCount: number, options: BackoffOptions): number {
  const doubled = options.baseMs * 2 ** Math.min(Math.max(failureCount - 1, 0), 30);
  const plainMs = Math.min(doubled, options.capMs);
  return plainMs + Math.floor((plainMs / 2) * options.fraction);
}
