import { type WorkerOptions } from "./worker.ts";
export interface WorkerProcessOptions extends Omit<WorkerOptions, "onRefused" | "host"> {
    readonly host?: string;
    readonly platformUrl: string;
    /** Also stop when standard input ends: whoever holds the other end of the pipe is gone. */
    readonly stopWithParent?: boolean;
    /** Told when the worker listens. */
    readonly onStarted?: (started: {
        readonly address: string;
        readonly incarnation: string;
    }) => void;
}
/**
 * Resolves with the exit code once everything is put away: 0 after SIGTERM, SIGINT or the end of standard input, 1
 * when the platform does not accept the join token. A second signal ends the process at once.
 */
export declare function runWorkerProcess(options: WorkerProcessOptions): Promise<number>;
