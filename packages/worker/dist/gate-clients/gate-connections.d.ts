/**
 * Kept connections to the gates and one request over them. `node:http` with a keep-alive agent, because it has the
 * lowest latency of what Node offers: head and body leave in one write, and nothing stands between socket and parser.
 */
import { type IncomingMessage } from "node:http";
import { type ErrorCode } from "@signalbox/contract";
export interface GateRequest {
    readonly url: URL;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: string;
    readonly signal: AbortSignal;
    /** What it is called when the gate cannot be reached, and when it falls silent. */
    readonly unreachable: ErrorCode;
    readonly silent: ErrorCode;
}
export declare class GateConnections implements Disposable {
    #private;
    /** Resolves with the head of the answer. An abort rejects with the signal's reason. */
    post(order: GateRequest): Promise<IncomingMessage>;
    /** The body of an answer, chunk by chunk. A cut connection rejects with `broken`, an abort with the signal's reason. */
    read(response: IncomingMessage, order: GateRequest, broken: ErrorCode): AsyncGenerator<Buffer>;
    /** The whole body as text, at most `limitBytes`; the rest is left unread and the connection dropped. */
    readText(response: IncomingMessage, order: GateRequest, limitBytes: number): Promise<string>;
    [Symbol.dispose](): void;
}
