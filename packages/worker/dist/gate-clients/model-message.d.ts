/**
 * A message of the Anthropic wire, put together from its stream. Text of a block is the sum of its deltas; a message
 * counts only when the provider has said how it stopped.
 */
import { type Json } from "@signalbox/contract";
export type JsonObject = {
    readonly [key: string]: Json;
};
/** A content block as it stands in a message, on the wire and in a transcript. */
export type ModelBlock = {
    readonly type: "text";
    readonly text: string;
} | {
    readonly type: "thinking";
    readonly thinking: string;
    readonly signature: string;
} | {
    readonly type: "redacted_thinking";
    readonly data: string;
} | {
    readonly type: "tool_use";
    readonly id: string;
    readonly name: string;
    readonly input: JsonObject;
};
export interface ModelMessage {
    readonly content: readonly ModelBlock[];
    /** As the provider said it. */
    readonly stopReason: string;
    readonly servedModel: string;
}
/** What is said while the message comes. `block` is its place in the message. */
export type ModelDelta = {
    readonly type: "text" | "thinking";
    readonly block: number;
    readonly text: string;
} | {
    readonly type: "block_stopped";
    readonly block: number;
};
export declare class ModelMessageBuilder {
    #private;
    /** Takes one event of the stream; returns what of it is worth telling at once. Throws what an error event says. */
    take(data: string): ModelDelta | null;
    /** The whole message. Throws `provider_stream_broken` when it is not whole. */
    finish(): ModelMessage;
}
