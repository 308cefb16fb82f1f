import type { Executor, LoadExecutor, RuntimeDescription } from "./executor.ts";
import type { WorkerLog } from "./log.ts";
export interface RuntimesOptions {
    readonly loaders: Readonly<Record<string, LoadExecutor>>;
    /** Serves snapshots of older releases, which name no runtime. */
    readonly defaultRuntime?: string;
    readonly scratchDir: string;
    readonly log: WorkerLog;
}
export declare class Runtimes implements AsyncDisposable {
    #private;
    private constructor();
    /** Never rejects for an engine that is not there: it is announced as unavailable, with the reason. */
    static load(options: RuntimesOptions): Promise<Runtimes>;
    get descriptions(): readonly RuntimeDescription[];
    /** The executor of a runtime; an empty name is the worker's default. */
    executor(name: string): {
        readonly runtime: string;
        readonly executor: Executor;
    };
    /** Lets every available engine load what its first session would wait for. A failure shows when a session opens. */
    warm(): Promise<void>;
    [Symbol.asyncDispose](): Promise<void>;
}
