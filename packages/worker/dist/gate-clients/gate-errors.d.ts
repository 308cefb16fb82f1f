/** What a gate's refusal means. Our own code travels in a header or in the body; the status speaks for the rest. */
import type { IncomingHttpHeaders } from "node:http";
import { PlatformError } from "@signalbox/contract";
/** The error of a model call that was not answered with 200. */
export declare function modelGateError(status: number, headers: IncomingHttpHeaders, body: string): PlatformError;
/** The error of an `error` event inside a stream. */
export declare function modelStreamError(event: unknown): PlatformError;
/** The error of a tool call that was not answered with 200. */
export declare function toolGateError(status: number, headers: IncomingHttpHeaders, body: string): PlatformError;
/**
 * How long to wait before trying again, or `null` when nothing usable was said. Seconds, an HTTP date, or the
 * milliseconds some providers add.
 */
export declare function readRetryAfter(headers: IncomingHttpHeaders, nowMs: number): number | null;
