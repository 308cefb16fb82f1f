import type { GateConnections } from "./gate-connections.ts";
import { type ModelDelta, type ModelMessage } from "./model-message.ts";
export interface ModelCall {
    /** The request of the wire without `stream`, already valid JSON text of an object. */
    readonly body: string;
    /** Called in order for every piece of text; a returned promise holds the stream back. */
    readonly onDelta: (delta: ModelDelta) => Promise<void> | undefined;
    readonly signal: AbortSignal;
}
export declare class ModelClient {
    #private;
    /** `modelUrl` is the base URL of the gate; `/v1/messages` is appended. */
    constructor(connections: GateConnections, modelUrl: string, slotToken: string);
    /**
     * Sends one call and resolves with the whole message. Rejects with the code of what went wrong (`provider_…`,
     * `stale_generation`, `run_cancelled` …), or with the signal's reason when it was aborted.
     */
    send(call: ModelCall): Promise<ModelMessage>;
}
