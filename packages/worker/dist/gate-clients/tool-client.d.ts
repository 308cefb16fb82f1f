import type { GateConnections } from "./gate-connections.ts";
import type { JsonObject } from "./model-message.ts";
export interface ToolCall {
    readonly name: string;
    readonly input: JsonObject;
    /** The provider's id of the call, which the gate matches with what the model proposed. */
    readonly toolUseId: string;
    readonly signal: AbortSignal;
}
/** A content block of MCP; members depend on `type`. */
export interface ToolContent {
    readonly type: string;
    readonly text?: string;
    readonly data?: string;
    readonly mimeType?: string;
    readonly resource?: {
        readonly text?: string;
        readonly uri?: string;
    };
    readonly uri?: string;
}
export interface ToolOutcome {
    readonly content: readonly ToolContent[];
    /** True also for a denial: the model reads the reason and goes on. */
    readonly isError: boolean;
}
export interface ListedTool {
    readonly name: string;
    readonly description?: string;
    readonly inputSchema: JsonObject;
}
export declare class ToolClient {
    #private;
    constructor(connections: GateConnections, gate: {
        readonly toolUrl: string;
        readonly slotToken: string;
    }, client: {
        readonly name: string;
        readonly version: string;
    });
    /**
     * Resolves with what the tool said, which includes a refusal of this one call. Rejects when the run may not go on
     * (`stale_generation`, `run_cancelled` …) or the gate cannot be reached (`tool_upstream_failed`).
     */
    call(call: ToolCall): Promise<ToolOutcome>;
    list(signal: AbortSignal): Promise<readonly ListedTool[]>;
}
