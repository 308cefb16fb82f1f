/** Our words as messages of the worker protocol, and back. Parsing happens here, once, where a call comes in. */
import { type MessageInitShape } from "@bufbuild/protobuf";
import { type HistoryEntry, type Rung, type Snapshot } from "@signalbox/contract";
import { type ExecuteStepRequest, type ExecuteStepResponse, type InitWorkerSessionRequest, type RuntimeSchema } from "@signalbox/contract/worker-protocol";
import type { StepOutput } from "./event-queue.ts";
import type { GateUrls, RuntimeDescription, StepInput } from "./executor.ts";
/** What the platform asks a session for, parsed. */
export interface SessionOrder {
    readonly tenantId: string;
    readonly conversationId: string;
    readonly generation: number;
    readonly snapshotJson: string;
    readonly snapshotHash: string;
    readonly slotToken: string;
    readonly rung: Rung;
    readonly leaf: string | null;
    readonly history: readonly HistoryEntry[];
    readonly gates: GateUrls & {
        readonly record: string;
    };
}
export declare function readSessionOrder(request: InitWorkerSessionRequest): SessionOrder;
export declare function readGeneration(generation: bigint): number;
export declare function readStepInput(request: ExecuteStepRequest): StepInput;
/** The snapshot's text has been hashed already; what the hash covers was checked by whoever froze it. */
export declare function readSnapshot(json: string): Snapshot;
export declare function writeOutput(output: StepOutput): ExecuteStepResponse;
export declare function writeRuntime(runtime: RuntimeDescription): MessageInitShape<typeof RuntimeSchema>;
