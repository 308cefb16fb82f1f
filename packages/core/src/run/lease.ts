/**
 * What a process knows about its own lease. The record judges by its own clock; the holder counts from before the
 * request left, on a clock that never goes back, so it always gives up first.
 */
export interface Lease {
  readonly leaseMs: number;
  /** Monotonic time before the last successful renewal was sent. */
  readonly sentAtMs: number;
}

/** Monotonic time from which on the holder authorises nothing. */
export function leaseEndsAtMs(lease: Lease, marginMs: number): number {
  return lease.sentAtMs + lease.leaseMs - marginMs;
}

export function isLeaseHeld(lease: Lease, nowMs: number, marginMs: number): boolean {
  return nowMs < leaseEndsAtMs(lease, marginMs);
}
