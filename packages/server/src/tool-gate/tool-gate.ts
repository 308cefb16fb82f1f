/**
 * The way from engines to tools: one MCP endpoint, stateless, in both eras of the protocol. Answerable for: an engine
 * sees the tools of its snapshot and no others, and nothing runs that was not proposed, pinned and recorded.
 */
import { isUtf8 } from "node:buffer";
import type { IncomingMessage, ServerResponse } from "node:http";
import { asPlatformError, PlatformError, type Snapshot } from "@signalbox/contract";
import type { Clock, Digest, Log, Randomness, SlotView, ToolJudge } from "@signalbox/core";
import type { Gate } from "../gates/gate-server.ts";
import type { KeptRecord } from "../gates/kept-calls.ts";
import { readBody } from "../gates/message-body.ts";
import { OpenCalls } from "../gates/open-calls.ts";
import { Settling } from "../gates/settling.ts";
import { slotTokenHash } from "../gates/slot-token.ts";
import { BegunCalls } from "./begun-calls.ts";
import { ListenStreams } from "./listen-streams.ts";
import { HANDSHAKE_VERSIONS, IMPLEMENTATION, META_SERVER, RPC, SUPPORTED_VERSIONS, type Json } from "./mcp-protocol.ts";
import { McpReply } from "./mcp-reply.ts";
import { McpProblem, readMcpMessage, type McpRequest } from "./mcp-request.ts";
import { ToolCall, type ToolCallPorts } from "./tool-call.ts";
import type { ToolCatalog } from "./tool-catalog.ts";
import type { UpstreamPool } from "./upstream-pool.ts";

export interface ToolGateOptions {
  readonly record: KeptRecord;
  readonly catalog: ToolCatalog;
  readonly pool: UpstreamPool;
  /** Judges a message's calls that have no verdict by today's policy. */
  readonly judge: ToolJudge;
  readonly clock: Clock;
  /** Incarnation of this process, named by every call it opens. Throws while the process is not sure of it. */
  readonly process: () => number;
  readonly digest: Digest;
  readonly randomness: Randomness;
  readonly log: Log;
  readonly limits?: Partial<ToolGateLimits>;
}

export interface ToolGateLimits {
  readonly requestBytesMax: number;
  /** For tools that the operator gave no time of their own. */
  readonly callMs: number;
  /** An answer that takes longer shows signs of life this often. */
  readonly quietMs: number;
  readonly recheckEveryMs: number;
}

export interface ToolGate extends Gate, AsyncDisposable {
  /** A bell: what may act in the conversation changed, or with `null` in any. The record says what is cut. */
  look(conversationId: string | null): void;
}

const LIMITS: ToolGateLimits = {
  requestBytesMax: 4 * 1024 * 1024,
  callMs: 60_000,
  quietMs: 10_000,
  recheckEveryMs: 900,
};

const PATH = "/mcp/units/default";
/** Nothing is announced: what must not be offered any more is taken out on the way to the model. */
const CAPABILITIES = { tools: {} };
const NOT_CACHED = { ttlMs: 0, cacheScope: "private" };
const SERVER_META = { [META_SERVER]: IMPLEMENTATION };

export function createToolGate(options: ToolGateOptions): ToolGate {
  return new HttpToolGate(options);
}

interface Exchange {
  readonly request: McpRequest;
  readonly response: ServerResponse;
  readonly reply: McpReply;
  readonly tokenHash: string;
  readonly view: SlotView;
}

class HttpToolGate implements ToolGate {
  readonly #options: ToolGateOptions;
  readonly #limits: ToolGateLimits;
  readonly #open: OpenCalls;
  readonly #settling: Settling;
  readonly #calls: ToolCallPorts;
  readonly #listening: ListenStreams;
  readonly #serving = new Set<Promise<void>>();
  /** How to leave an open call, by slot and request id, for clients that cancel in words. */
  readonly #cancellable = new Map<string, () => void>();

  constructor(options: ToolGateOptions) {
    const { record, clock } = options;
    this.#options = options;
    this.#limits = { ...LIMITS, ...options.limits };
    this.#open = new OpenCalls({ record, clock, recheckEveryMs: this.#limits.recheckEveryMs });
    this.#settling = new Settling(options);
    const own = { open: this.#open, settling: this.#settling };
    const begun = new BegunCalls({ ...options, ...own });
    this.#calls = { ...options, ...own, begun, callMs: this.#limits.callMs };
    this.#listening = new ListenStreams(clock);
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    const served = this.#serve(request, response)
      .catch((thrown: unknown) => this.#fail(new McpReply(response, null), thrown))
      .finally(() => this.#serving.delete(served));
    this.#serving.add(served);
  }

  look(conversationId: string | null): void {
    this.#open.hear(conversationId);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#open[Symbol.asyncDispose]();
    await this.#listening[Symbol.asyncDispose]();
    await Promise.all([this.#settling[Symbol.asyncDispose](), ...this.#serving]);
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if ((request.url ?? "").split("?")[0] !== PATH) {
      throw new PlatformError("not_found", `The tool gate serves ${PATH}.`);
    }
    if (request.method !== "POST") {
      response.setHeader("allow", "POST");
      throw new PlatformError("method_not_allowed");
    }
    const tokenHash = slotTokenHash(request.headers, this.#options.digest);
    const bytes = await readBody(request, this.#limits.requestBytesMax);
    if (!isUtf8(bytes)) throw new PlatformError("invalid_encoding");
    const message = readMcpMessage(bytes.toString("utf8"), request.headers);
    if (!("id" in message)) {
      if (message.method === "notifications/cancelled") this.#cancel(tokenHash, message.params.requestId);
      response.writeHead(202).end();
      return;
    }
    const reply = new McpReply(response, message.id);
    try {
      const view = await this.#options.record.slot(tokenHash);
      await this.#answer({ request: message, response, reply, tokenHash, view });
    } catch (thrown) {
      this.#fail(reply, thrown);
    }
  }

  async #answer(exchange: Exchange): Promise<void> {
    const { request, reply, view } = exchange;
    switch (`${request.modern ? "modern" : "handshake"} ${request.method}`) {
      case "modern server/discover":
        reply.result(
          written({ supportedVersions: SUPPORTED_VERSIONS, capabilities: CAPABILITIES, ...NOT_CACHED }, true),
        );
        return;
      case "modern subscriptions/listen":
        await this.#listening.serve(exchange);
        return;
      case "handshake initialize":
        reply.result(JSON.stringify(greeting(request.params)));
        return;
      case "handshake ping":
        reply.result("{}");
        return;
      case "modern tools/list":
      case "handshake tools/list":
        reply.result(this.#list(view.snapshot, request.modern));
        return;
      case "modern tools/call":
      case "handshake tools/call":
        await this.#call(exchange);
        return;
      default:
        throw new McpProblem("Method not found", {
          status: request.modern ? 404 : 200,
          rpcCode: RPC.methodNotFound,
          id: request.id,
        });
    }
  }

  #list(snapshot: Snapshot, modern: boolean): string {
    const withheld = this.#options.catalog.withheld(snapshot);
    const tools = snapshot.tools
      .filter((tool) => !withheld.has(tool.name))
      .map(({ name, title, description, inputSchema }) => ({ name, title, description, inputSchema }));
    return written({ tools, ...(modern ? NOT_CACHED : {}) }, modern);
  }

  async #call({ request, response, reply, tokenHash, view }: Exchange): Promise<void> {
    const { name, arguments: input = {} } = request.params;
    if (typeof name !== "string") {
      throw new McpProblem("name must be a string.", { status: 200, rpcCode: RPC.invalidParams });
    }
    const ending = new AbortController();
    const call = new ToolCall(this.#calls, { tokenHash, view, name, arguments: input, meta: request.meta, ending });
    let looking: Promise<void> = Promise.resolve();
    const leave = (detail: string): void => {
      call.leave(new PlatformError("run_cancelled", detail));
      looking = this.#open.look();
    };
    const onClose = (): void => {
      if (!response.writableFinished) leave("The engine went away.");
    };
    const key = cancelKey(tokenHash, request.id);
    const done = new AbortController();
    response.on("close", onClose);
    this.#cancellable.set(key, () => leave("The engine cancelled the call."));
    const alive = reply.keepAlive(this.#options.clock, this.#limits.quietMs, done.signal);
    try {
      const { json } = await call.answer();
      reply.result(request.modern ? `{"resultType":"complete",${json.slice(1)}` : json);
    } finally {
      response.off("close", onClose);
      this.#cancellable.delete(key);
      done.abort("answered");
      await Promise.all([alive, looking]);
    }
  }

  #cancel(tokenHash: string, requestId: unknown): void {
    this.#cancellable.get(cancelKey(tokenHash, requestId))?.();
  }

  #fail(reply: McpReply, thrown: unknown): void {
    if (thrown instanceof McpProblem) {
      const { status, rpcCode, message, data, id } = thrown;
      reply.about(id).error({ status, rpcCode, message, code: null, data });
      return;
    }
    const error = asPlatformError(thrown);
    if (error.code === "internal" || error.code === "database_unavailable") {
      this.#options.log.error("a request failed inside the tool gate", thrown);
    }
    const { status } = error.facts;
    reply.error({ status, rpcCode: status, message: error.detail, code: error.code });
  }
}

/** Results of the modern era say what kind they are and who answers. */
function written(result: Json, modern: boolean): string {
  return JSON.stringify(modern ? { ...result, resultType: "complete", _meta: SERVER_META } : result);
}

function greeting(params: Json): Json {
  const asked = HANDSHAKE_VERSIONS.find((version) => version === params.protocolVersion);
  return { protocolVersion: asked ?? HANDSHAKE_VERSIONS[0], capabilities: CAPABILITIES, serverInfo: IMPLEMENTATION };
}

function cancelKey(tokenHash: string, requestId: unknown): string {
  return `${tokenHash} ${JSON.stringify(requestId)}`;
}
