/**
 * Between an engine that produces events and a reader that may be slow. Holds a bounded amount: beyond it `push`
 * returns a promise the engine waits for. Deltas of one item that wait behind each other are merged, so a slow reader
 * costs messages, never memory, and a fast one is never delayed.
 */
import type { StepEvent, StepResult } from "./executor.ts";
export type StepOutput = {
    readonly kind: "event";
    readonly event: StepEvent;
} | {
    readonly kind: "result";
    readonly result: StepResult;
};
export declare class EventQueue implements AsyncIterable<StepOutput> {
    #private;
    /** Whether the result has been handed in: nothing may follow it. */
    get finished(): boolean;
    push(event: StepEvent): Promise<void> | undefined;
    /** The engine is to stop: it must not be held by a slow reader any more. */
    release(): void;
    /** Hands in the one result. A second one is ignored: the first was already promised to the reader. */
    finish(result: StepResult): void;
    /** The reader is gone: whatever comes is dropped, and the engine is not made to wait for it. */
    abandon(): void;
    [Symbol.asyncIterator](): AsyncGenerator<StepOutput>;
}
