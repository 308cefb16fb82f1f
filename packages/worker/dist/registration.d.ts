import type { PlatformError } from "@signalbox/contract";
import type { WorkerClock } from "./clock.ts";
import type { RuntimeDescription } from "./executor.ts";
import type { WorkerLog } from "./log.ts";
export interface RegistrationOptions {
    readonly platformUrl: string;
    readonly joinToken: string;
    readonly address: string;
    readonly incarnation: string;
    readonly room: number;
    readonly runtimes: () => readonly RuntimeDescription[];
    readonly clock: WorkerClock;
    readonly log: WorkerLog;
    /** How long ago a supervisor called. */
    readonly silenceMs: () => number;
    readonly onLease: (leaseMs: number) => void;
    /** The platform answered that it does not accept this worker. Called once. */
    readonly onRefused: (error: PlatformError) => void;
}
export declare class Registration implements AsyncDisposable {
    #private;
    constructor(options: RegistrationOptions);
    [Symbol.asyncDispose](): Promise<void>;
}
