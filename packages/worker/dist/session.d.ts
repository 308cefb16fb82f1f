/** One engine session of a conversation on this worker: its generation, its one running step and its end. */
import { type ErrorCode } from "@signalbox/contract";
import { type WorkerClock } from "./clock.ts";
import type { StepOutput } from "./event-queue.ts";
import type { CheckpointHeader, EngineSession, StepInput } from "./executor.ts";
import type { WorkerLog } from "./log.ts";
export interface WorkerSessionOptions {
    readonly conversationId: string;
    readonly generation: number;
    readonly runtime: string;
    readonly snapshotHash: string;
    /** SHA-256 (hex) of the slot token the engine holds. */
    readonly slotHash: string;
    readonly clock: WorkerClock;
    readonly log: WorkerLog;
    /** Called once, before the engine is disposed: the session is no longer there for new calls. */
    readonly onEnding: (session: WorkerSession) => void;
}
export declare class WorkerSession {
    #private;
    readonly conversationId: string;
    readonly runtime: string;
    readonly snapshotHash: string;
    readonly slotHash: string;
    readonly openedAtMs: number;
    constructor(options: WorkerSessionOptions);
    get generation(): number;
    get leaf(): string | null;
    get stepping(): boolean;
    get ended(): boolean;
    /** Since when nothing has been asked of the session. */
    get usedAtMs(): number;
    /** Takes the engine that was opened for this session; one that came too late is put away. */
    adopt(engine: EngineSession): Promise<void>;
    rebind(generation: number): void;
    /** Runs one step; ends after its one result. `readerGone` aborts when nobody reads any more. */
    step(input: StepInput, readerGone: AbortSignal): AsyncGenerator<StepOutput>;
    /** Asks the running step to stop; tells whether there was one. */
    interrupt(reason: string): boolean;
    checkpoint(): Promise<CheckpointHeader>;
    /** The session can no longer work. Its step fails with `code`, and it ends. */
    lose(code: ErrorCode, detail: string): void;
    /** Stops the step, disposes the engine. Idempotent; every caller waits for the same end. Never rejects. */
    end(reason: string): Promise<void>;
}
