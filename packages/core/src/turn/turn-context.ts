import type { Limits } from "../kernel/limits.ts";
import type { Cancellation, CancelSignal, Clock } from "../ports/clock.ts";
import type { LiveChannel } from "../ports/live.ts";
import type { Digest, Randomness } from "../ports/randomness.ts";
import type { Log } from "../ports/telemetry.ts";
import type { WorkerPool } from "../ports/worker.ts";
import type { SteeringLine } from "./steering.ts";

export interface TurnPorts {
  readonly pool: WorkerPool;
  readonly live: Pick<LiveChannel, "publish">;
  readonly clock: Clock;
  readonly cancellation: Cancellation;
  readonly randomness: Randomness;
  readonly digest: Digest;
  readonly log: Log;
}

export interface TurnContext {
  readonly ports: TurnPorts;
  readonly limits: Limits;
  /** Somebody cancelled the run: the step is interrupted, its partial answer kept. */
  readonly cancel: CancelSignal;
  /** This process may not or will not go on (lease lost, drain): everything stops at once. */
  readonly halt: CancelSignal;
  /** Where messages for the running turn come in. */
  readonly steering: SteeringLine;
  /** The run has its place on a worker: room is counted there from now on. */
  readonly onSeated: () => void;
}
