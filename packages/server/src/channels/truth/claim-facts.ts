import type { Snapshot } from "@signalbox/contract";
import type { Claim } from "@signalbox/core";

/** A claim as the record tells it: the snapshot is named, and the newest sequence comes along for the doorbell. */
export type ClaimFacts = Omit<Claim, "snapshot"> & { readonly sequence: number };

export function claimOf(facts: ClaimFacts, snapshot: Snapshot): Claim {
  const { sequence: _, ...claim } = facts;
  return { ...claim, snapshot };
}
