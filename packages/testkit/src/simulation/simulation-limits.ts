import { LIMITS, type Limits } from "@signalbox/core";

/** The platform's own limits, with waits short enough that a history is over in a virtual minute. */
export const SIMULATION_LIMITS: Limits = {
  ...LIMITS,
  interruptWaitMs: 500,
  seatWaitMs: 2_000,
  openCallWaitMs: 1_000,
  inheritedCallWaitMs: 5_000,
  drainMs: 3_000,
  haltWaitMs: 1_000,
  runWallClockMs: 30_000,
  queueCount: 4,
};

export const SIMULATION_LEASE_MS = 5_000;
