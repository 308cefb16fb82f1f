/** Time as a worker sees it. Fits the platform's own clock, so an embedding process can hand in one for both. */
export interface WorkerClock {
    /** Unix milliseconds; only for ids and log lines. */
    nowMs(): number;
    /** Never goes back; every bound and lease of a worker is measured on it. */
    monotonicMs(): number;
    /** Resolves after `delayMs`, or at once when `signal` aborts; tells which. */
    sleep(delayMs: number, signal?: AbortSignal): Promise<"elapsed" | "aborted">;
}
/** The machine's clock. Its timers keep no process alive. */
export declare const systemClock: WorkerClock;
/** Waits for `work` to settle either way, at most `boundMs`; tells whether it did. */
export declare function settledWithin(work: Promise<unknown>, boundMs: number, clock: WorkerClock): Promise<boolean>;
