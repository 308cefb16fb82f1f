/**
 * The way to tools that are functions of this process. It speaks as a tool server does, so that a function is pinned,
 * judged, recorded, bounded and cancelled by the code that all tools share.
 */
import { clip, wellFormed } from "@signalbox/contract";
import type { Clock } from "@signalbox/core";
import type { FunctionTool } from "./function-tool.ts";
import { IMPLEMENTATION, isObject, META_SERVER, MODERN_VERSION, RPC, type Json } from "./mcp-protocol.ts";
import {
  CANCEL_GRACE_MS,
  deservesGrace,
  endOf,
  notAnswered,
  SETTLED,
  type RpcAnswer,
  type RpcRequest,
  type RpcWire,
} from "./rpc-wire.ts";

const MESSAGE_CHARS_MAX = 1_000;

export class FunctionWire implements RpcWire, AsyncDisposable {
  readonly #tools: ReadonlyMap<string, FunctionTool>;
  readonly #clock: Clock;
  readonly #closing = new AbortController();

  constructor(tools: readonly FunctionTool[], { clock }: { readonly clock: Clock }) {
    this.#tools = new Map(tools.map((tool) => [tool.name, tool]));
    this.#clock = clock;
  }

  async request(request: RpcRequest): Promise<RpcAnswer> {
    switch (request.method) {
      case "server/discover":
        return complete({ supportedVersions: [MODERN_VERSION], capabilities: { tools: {} }, _meta: SAID_BY });
      case "tools/list":
        return complete({ tools: [...this.#tools.values()].map(({ definition }) => definition) });
      case "tools/call":
        return await this.#call(request);
      default:
        return { kind: "error", code: RPC.methodNotFound, message: "Method not found", data: null };
    }
  }

  notify(): Promise<void> {
    return Promise.resolve();
  }

  speak(): void {
    // There is one revision that both sides speak.
  }

  /** Tells every function that is still running to stop. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort("closing");
  }

  async #call(request: RpcRequest): Promise<RpcAnswer> {
    const params: unknown = JSON.parse(request.params);
    const { name, arguments: input, _meta: meta } = isObject(params) ? params : {};
    const tool = typeof name === "string" ? this.#tools.get(name) : undefined;
    if (tool === undefined || !isObject(input)) {
      return { kind: "error", code: RPC.invalidParams, message: "There is no such function.", data: null };
    }
    const stop = new AbortController();
    const settled = new AbortController();
    const signal = AbortSignal.any([stop.signal, this.#closing.signal]);
    // Settles by itself and never rejects: a function that goes on after nobody waits any more is not lost sight of.
    const answering = answerOf(tool, input, contextOf(meta, signal)).finally(() => settled.abort(SETTLED));
    const wanted = { timeoutMs: request.timeoutMs, signal: AbortSignal.any([request.signal, this.#closing.signal]) };
    const end = await endOf(wanted, { settled: settled.signal, clock: this.#clock });
    if (end === "answered") return await answering;
    stop.abort(end);
    if (deservesGrace(end, request)) {
      const late = await endOf(
        { timeoutMs: CANCEL_GRACE_MS, signal: NEVER },
        { settled: settled.signal, clock: this.#clock },
      );
      if (late === "answered") return await answering;
    }
    throw notAnswered(end);
  }
}

const SAID_BY: Json = { [META_SERVER]: IMPLEMENTATION };
const NEVER = new AbortController().signal;

async function answerOf(tool: FunctionTool, input: Json, context: Parameters<FunctionTool["call"]>[1]) {
  try {
    return complete(await tool.call(input, context));
  } catch (thrown) {
    // What a function throws is written for its own logs; the model gets the message alone.
    const message = thrown instanceof Error && thrown.message !== "" ? thrown.message : "The function failed.";
    return complete({
      isError: true,
      content: [{ type: "text", text: clip(wellFormed(message), MESSAGE_CHARS_MAX) }],
    });
  }
}

function contextOf(meta: unknown, signal: AbortSignal): Parameters<FunctionTool["call"]>[1] {
  const { "signalbox/idempotencyKey": key, traceparent } = isObject(meta) ? meta : {};
  return {
    idempotencyKey: typeof key === "string" ? key : "",
    signal,
    traceparent: typeof traceparent === "string" ? traceparent : null,
  };
}

function complete(result: Json): RpcAnswer {
  return { kind: "result", result: { resultType: "complete", ...result } };
}
