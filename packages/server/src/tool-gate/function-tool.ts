/**
 * A tool that is a function of this process, in the form the tool gate works with: what it is listed as, what the operator
 * says of it, and how it is called.
 */
import type { ApproveMode, EffectClass } from "@signalbox/contract";
import type { Json } from "./mcp-protocol.ts";

/** What a function is told beside its input. */
export interface FunctionCallContext {
  /** The same on every retry of the call: hand it to whoever must not act twice. */
  readonly idempotencyKey: string;
  /** Aborted when the run is cancelled, the call has taken too long, or the platform closes. */
  readonly signal: AbortSignal;
  /** Of the trace that the run belongs to (W3C), or `null`. */
  readonly traceparent: string | null;
}

/** A function as the tool gate lists and calls it. */
export interface FunctionTool {
  readonly name: string;
  readonly effect: EffectClass;
  readonly approve: ApproveMode;
  readonly timeoutMs: number | null;
  /** As MCP lists it. */
  readonly definition: Json;
  /** An MCP result. Rejects with whatever the function throws. */
  call(input: Json, context: FunctionCallContext): Promise<Json>;
}

/** Functions of one program, under the name they have among the tool servers. */
export interface FunctionServer {
  readonly name: string;
  readonly tools: readonly FunctionTool[];
}
