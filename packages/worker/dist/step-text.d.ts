import type { StepEvent } from "./executor.ts";
export declare const TEXT_BYTES_MAX: number;
export declare class StepText {
    #private;
    /** Text of the item that was written last, which is what a cut step answers with. */
    get partialAnswer(): string;
    /** The event as it may leave, or `null` when all of it has to wait. Throws `payload_too_large`. */
    accept(event: StepEvent): StepEvent | null;
}
/** Refuses a text that no message of the worker protocol can carry, and says how large it was. */
export declare function assertFits(text: string, what: string): void;
