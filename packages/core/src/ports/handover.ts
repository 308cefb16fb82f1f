/**
 * How the request side offers a run it is about to admit to the supervisor of the same process. Request side and run
 * side do not know each other; wiring joins them through this port.
 */
import type { Claim } from "./ownership-record.ts";

export interface Handover {
  /** Holds room for one run of this runtime; `null` when this process has none, drains, or is not sure of its lease. */
  reserve(runtime: string): Reservation | null;
}

/** Ends with exactly one of `take`, `free`, `doubt`. */
export interface Reservation {
  /** The incarnation to claim for. */
  readonly process: number;
  /** The run was claimed: drive it. */
  take(claim: Claim): void;
  /** Nothing was claimed. */
  free(): void;
  /** The reply was lost: the record may or may not say that this process owns the run. */
  doubt(): void;
}
