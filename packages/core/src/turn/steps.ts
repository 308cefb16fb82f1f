/** Drives a session step by step until a result says stop, handing out what the worker says on the way. */
import { PlatformError } from "@signalbox/contract";
import type { Limits } from "../kernel/limits.ts";
import type { Suspension } from "../ports/ownership-record.ts";
import type { Seat, StepRequest, StepResult } from "../ports/worker.ts";
import type { Emitter } from "./emitter.ts";
import type { Steering } from "./steering.ts";
import type { Stops } from "./stops.ts";

export interface StepRun {
  readonly seat: Seat;
  readonly emitter: Emitter;
  readonly stops: Stops;
  readonly limits: Limits;
  readonly steering: Steering;
  /** Called when a step says the first thing. */
  readonly onBegun: () => void;
  /** Called when a step says that the run waits for a hold: suspends it, or finds that nothing is open any more. */
  readonly onHold: () => Promise<Suspension>;
}

/** The last step's result. Rejects with `TurnStopped` when a step did not end in time after it was interrupted. */
export async function runSteps(first: StepRequest, run: StepRun): Promise<StepResult> {
  let request = first;
  for (let count = 0; ; count += 1) {
    const result = await run.stops.patiently(runStep(request, run));
    if (run.stops.cause !== null || (result.outcome !== "continue" && result.outcome !== "hold_required")) {
      return result;
    }
    if (result.outcome === "hold_required" && (await run.onHold()) !== "go_on") {
      return result;
    }
    if (count >= run.limits.continueCount) {
      throw new PlatformError("engine_failed", "The engine asked to continue its turn too often.");
    }
    request = { ...request, parts: [], continueReason: result.stopReason, recovery: null };
  }
}

async function runStep(request: StepRequest, run: StepRun): Promise<StepResult> {
  let result: StepResult | null = null;
  for await (const output of run.seat.step(request, run.stops.interrupt)) {
    run.onBegun();
    if (output.kind === "result") {
      result = output.result;
    } else if (output.event.type === "input.consumed") {
      // Before anything else the step says: what is sealed later counts it in.
      await run.steering.consumed(output.event.messageId);
    } else {
      await run.emitter.emit(output.event);
    }
  }
  if (result === null) {
    throw new PlatformError("worker_lost", "The worker's step ended without a result.");
  }
  return result;
}
