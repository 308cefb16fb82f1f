import type { WorkerClock } from "./clock.ts";
import type { TranscriptLog } from "./executor.ts";
import type { WorkerLog } from "./log.ts";
import type { Runtimes } from "./runtimes.ts";
import { WorkerSession } from "./session.ts";
import { type SessionOrder } from "./wire.ts";
export interface SessionsOptions {
    readonly runtimes: Runtimes;
    readonly room: number;
    readonly clock: WorkerClock;
    readonly log: WorkerLog;
    /** The record gate of a session. */
    readonly transcript: (recordUrl: string, slotToken: string) => TranscriptLog;
    readonly idleMaxMs?: number;
    readonly ageMaxMs?: number;
}
export interface OpenedSession {
    readonly rebound: boolean;
    readonly slotHash: string;
    readonly leaf: string | null;
}
export declare class Sessions {
    #private;
    constructor(options: SessionsOptions);
    /** Sessions that can still be asked for something. */
    get all(): readonly WorkerSession[];
    /** How many steps may run at once; none while the worker drains. */
    get room(): number;
    open(order: SessionOrder): Promise<OpenedSession>;
    /** The session a step is asked of. */
    forStep(conversationId: string, generation: number): WorkerSession;
    find(conversationId: string, generation: number): WorkerSession;
    terminate(conversationId: string, generation: number, reason: string): Promise<void>;
    /** Parks what has been idle or alive for too long. The record has what is needed to open it again. */
    reap(): Promise<void>;
    /** Ends every session, and waits for those that are ending already. */
    endAll(reason: string): Promise<void>;
    /** From now on nothing new begins. */
    drain(): void;
}
