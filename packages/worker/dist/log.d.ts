/** Structured log lines of a worker. Facts must not carry tokens or message text. Fits the platform's log port. */
export interface WorkerLog {
    info(message: string, facts?: Readonly<Record<string, unknown>>): void;
    warn(message: string, facts?: Readonly<Record<string, unknown>>): void;
    /** Logs an error once, with its chain of causes. */
    error(message: string, error: unknown, facts?: Readonly<Record<string, unknown>>): void;
}
/** One JSON object a line, handed to `write`. */
export declare function lineLog(write: (line: string) => void, nowMs: () => number): WorkerLog;
/** What each error of the chain says, from the outermost to the first cause. */
export declare function chainOf(error: unknown): readonly string[];
