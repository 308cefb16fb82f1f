/**
 * One step of an engine, from its start to its one result. Answerable for: exactly one result whatever the engine
 * does, well-formed bounded text, a reader that may be slow or vanish, and an interrupt that ends within its bound.
 */
import { type ErrorCode } from "@signalbox/contract";
import { type WorkerClock } from "./clock.ts";
import { EventQueue } from "./event-queue.ts";
import type { EngineSession, StepInput } from "./executor.ts";
import type { WorkerLog } from "./log.ts";
export interface RunningStepOptions {
    readonly engine: EngineSession;
    readonly input: StepInput;
    readonly clock: WorkerClock;
    readonly log: WorkerLog;
    /** The engine did not end within the bound after an interrupt: it cannot be trusted with another step. */
    readonly onStuck: () => void;
}
export declare class RunningStep {
    #private;
    readonly queue: EventQueue;
    /** Settles when the step has its result, which the engine gave or the bound forced. Never rejects. */
    readonly ended: Promise<void>;
    constructor(options: RunningStepOptions);
    /** Starts the engine. The promise settles when the engine has come back, however late. Never rejects. */
    run(): Promise<void>;
    /** Asks the engine to stop, and ends the step for it when it does not. Repeated calls change nothing. */
    interrupt(reason: string): Promise<void>;
    /** The owner is stale or the engine is gone: whatever the engine still says, the step has failed with this. */
    lose(code: ErrorCode, detail: string): void;
    /** Ends the step now, without waiting for the engine. */
    cut(code: ErrorCode, detail: string): void;
}
