/** What a supervisor needs, and what the rest of its process sees of it. */
import type { Limits } from "../kernel/limits.ts";
import type { Cancellation, Clock } from "../ports/clock.ts";
import type { Handover } from "../ports/handover.ts";
import type { LiveChannel } from "../ports/live.ts";
import type { Held, OwnershipRecord, ProcessRecord } from "../ports/ownership-record.ts";
import type { Digest, Randomness } from "../ports/randomness.ts";
import type { Log } from "../ports/telemetry.ts";
import type { WorkerPool } from "../ports/worker.ts";

export interface SupervisorPorts {
  readonly record: OwnershipRecord;
  readonly processes: ProcessRecord;
  readonly pool: WorkerPool;
  readonly live: LiveChannel;
  readonly clock: Clock;
  readonly cancellation: Cancellation;
  readonly randomness: Randomness;
  readonly digest: Digest;
  readonly log: Log;
}

export interface SupervisorOptions {
  /** Shown to operators beside the incarnation, for example `["supervisor", "gate"]`. */
  readonly roles: readonly string[];
  readonly limits?: Limits;
}

export interface Supervisor extends Handover, AsyncDisposable {
  /** Registers this process and starts its loops. Rejects when the record cannot be reached. */
  start(): Promise<void>;
  /**
   * This process's incarnation while it is sure of its lease, else `null`. Gates name it in every intent, and deny
   * while it is `null`.
   */
  process(): number | null;
  /** Something may be claimable, a cancel may be marked, or a worker has come: look now. Cheap; coalesced. */
  wake(): void;
  /** A place was left. Looks only when something may have been waiting for one, so that quiet times ask nothing. */
  roomGrew(): void;
  /** What this process drives at the moment. */
  driving(): readonly Held[];
  /**
   * Stops claiming, waits for the runs it drives as long as `LIMITS.drainMs`, gives the rest back, stops every loop and
   * unregisters. Never rejects; idempotent. Disposal drains.
   */
  drain(): Promise<void>;
}
