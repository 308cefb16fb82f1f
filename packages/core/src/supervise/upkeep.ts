/**
 * Forgets what the record need not keep: one pass of one process at a time, in bounded batches. Nothing waits for it,
 * and a pass that breaks off is taken up by the next one.
 */
import { LIMITS, type Limits } from "../kernel/limits.ts";
import type { UpkeepRecord } from "../ports/upkeep-record.ts";
import { startLoop, type Loop, type LoopPorts } from "./loop.ts";

export interface UpkeepPorts extends LoopPorts {
  readonly record: UpkeepRecord;
}

export interface UpkeepOptions {
  readonly eventRetentionMs: number;
  readonly limits?: Limits;
}

export interface Upkeep extends AsyncDisposable {
  start(): void;
}

/** Disposal waits for the batch that is under way. */
export function createUpkeep(ports: UpkeepPorts, options: UpkeepOptions): Upkeep {
  const { eventRetentionMs, limits = LIMITS } = options;
  const { record } = ports;
  const {
    upkeepRowCount: limit,
    upkeepBatchCount,
    upkeepEveryMs,
    idempotencyKeyMs,
    unusedSlotMs,
    deliveryKeptMs,
  } = limits;
  let loop: Loop | null = null;
  let stopped = false;
  const jobs: readonly (() => Promise<number>)[] = [
    () => record.eraseDeleted(limit),
    () => record.expireEvents({ ageMs: eventRetentionMs, limit }),
    () => record.emptyParts(limit),
    () => record.pruneTranscripts(limit),
    () => record.pruneKeys({ ageMs: idempotencyKeyMs, limit }),
    () => record.pruneSlots({ ageMs: unusedSlotMs, limit }),
    () => record.pruneDeliveries({ ageMs: deliveryKeptMs, limit }),
  ];
  const pass = async (): Promise<number> => {
    if (!(await record.begin(upkeepEveryMs))) return upkeepEveryMs;
    for (const job of jobs) {
      let doneCount = limit;
      for (let batch = 0; batch < upkeepBatchCount && doneCount >= limit && !stopped; batch += 1) {
        doneCount = await job();
      }
    }
    return upkeepEveryMs;
  };
  return {
    start() {
      loop ??= startLoop({ name: "the upkeep", ports, limits, step: pass });
    },
    async [Symbol.asyncDispose]() {
      stopped = true;
      await loop?.stop();
    },
  };
}
