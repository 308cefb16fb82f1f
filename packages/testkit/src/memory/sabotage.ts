/** Deliberate defects of the memory record, one per promise at least. Each must be caught by the check of its promise. */
export const SABOTAGES = [
  /** A message is admitted though another run is active. */
  "two_active_runs",
  /** The end of a run forgets to admit the next one. */
  "stranded_queue",
  /** A message that ends the active run is answered before those that were there first. */
  "interrupt_overtakes",
  /** A message that was taken in is forgotten when the run that took it ends. */
  "merged_forgotten",
  /** The newest waiting message is answered first. */
  "last_in_first_out",
  /** An owner's writes are not compared with the current generation. */
  "write_without_fence",
  /** Transcript entries are taken whoever sends them. */
  "transcript_without_fence",
  /** A gate authorises a call without looking at the generation. */
  "intent_without_fence",
  /** Two gates, or one gate twice, settle the same call. */
  "settle_twice",
  /** A run that has ended can be ended again. */
  "finish_twice",
  /** The ending of a run is written without its event. */
  "silent_finish",
  /** A failed append leaves a hole in the sequence. */
  "sequence_gap",
  /** A run that nobody owns is driven. */
  "running_without_owner",
  /** A cancel is acknowledged, and intents go on. */
  "intent_after_cancel",
  /** A turn that runs again makes its calls again, whatever they did the first time. */
  "effect_repeated",
  /** The last hold of a run is decided, and nobody wakes the run. */
  "decided_in_vain",
  /** A tail that was adopted and could not be continued stays in the transcript. */
  "tail_not_dropped",
  /** When the store is not what it was, generations go on from where they were. */
  "era_keeps_generations",
  /** When the store is not what it was, its processes go on. */
  "era_keeps_processes",
  /** When the store is not what it was, what was approved before is carried out. */
  "era_keeps_approvals",
  /** A call is made while somebody is still asked about one of its message. */
  "approval_not_awaited",
  /** What was approved is made whatever has become of the approval and of the call. */
  "approval_not_verified",
  /** The same key admits a second run. */
  "idempotency_forgotten",
] as const;
/** The name of one deliberate defect. */
export type Sabotage = (typeof SABOTAGES)[number];
