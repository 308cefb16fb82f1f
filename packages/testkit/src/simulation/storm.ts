/** What a seed brings: how many processes, workers and conversations, who writes when, and how much goes wrong. */
import { WHEN_BUSY } from "@signalbox/contract";
import type { FaultRates } from "./faults.ts";
import type { ProcessOptions } from "./platform-process.ts";
import type { Seeded } from "./seeded.ts";
import type { PlannedMessage } from "./user.ts";

export interface Weather {
  readonly processes: readonly ProcessOptions[];
  readonly conversationCount: number;
  readonly messages: (conversationIds: readonly string[]) => readonly PlannedMessage[];
  readonly rates: FaultRates;
  /** When a process is asked to leave while another takes its place. */
  readonly deployAtMs: readonly number[];
  /** When a process loses the connection that stands for its presence, and goes on. */
  readonly sessionLostAtMs: () => readonly number[];
  /** When the store turns out to be another one than it was. */
  readonly storeReplacedAtMs: () => readonly number[];
}

export function stormOf(random: Seeded): Weather {
  const processCount = random.between(1, 3);
  const processes = Array.from({ length: processCount }, (_, index) => ({
    name: `p${index + 1}`,
    workerCount: random.between(1, 2),
    roomPerWorker: random.between(1, 3),
  }));
  const calm = random.chance(0.15);
  return {
    processes,
    conversationCount: random.between(1, 2),
    messages: (ids) => Array.from({ length: random.between(2, 5) }, () => messageOf(random, ids)),
    rates: {
      untilMs: random.between(3_000, 9_000),
      perCall: calm ? 0 : random.pick([0.005, 0.02, 0.05]),
      worker: calm ? 0 : random.pick([0, 0.02, 0.06]),
      bell: random.pick([0, 0.3, 1]),
      delta: random.pick([0, 0.3, 1]),
      recordDown: random.chance(0.15),
    },
    deployAtMs: random.chance(0.25) ? [random.between(500, 4_000)] : [],
    sessionLostAtMs: () => (random.chance(0.3) ? [random.between(200, 5_000)] : []),
    storeReplacedAtMs: () => (random.chance(0.2) ? [random.between(200, 5_000)] : []),
  };
}

function messageOf(random: Seeded, conversationIds: readonly string[]): PlannedMessage {
  return {
    conversationId: random.pick(conversationIds),
    atMs: random.between(0, 4_000),
    whenBusy: random.chance(0.5) ? "enqueue" : random.pick(WHEN_BUSY),
    cancelAfterMs: random.chance(0.25) ? random.between(0, 1_500) : null,
  };
}

/** One process, one worker, one message that goes well. */
export const CALM: Weather = {
  processes: [{ name: "p1", workerCount: 1, roomPerWorker: 1 }],
  conversationCount: 1,
  messages: ([conversationId = ""]) => [{ conversationId, atMs: 200, whenBusy: "enqueue", cancelAfterMs: null }],
  rates: { untilMs: 0, perCall: 0, worker: 0, bell: 0, delta: 0, recordDown: false },
  deployAtMs: [],
  sessionLostAtMs: () => [],
  storeReplacedAtMs: () => [],
};
