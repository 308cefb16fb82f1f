/**
 * A tool server we have come to terms with: which revision of MCP it speaks, what it lists, and calls of its tools.
 * Modern servers are stateless; older ones get the handshake first.
 */
import { PlatformError } from "@signalbox/contract";
import {
  HANDSHAKE_VERSIONS,
  IMPLEMENTATION,
  isObject,
  META_CAPABILITIES,
  META_CLIENT,
  META_SERVER,
  META_VERSION,
  MODERN_VERSION,
  RPC,
  type Json,
} from "./mcp-protocol.ts";
import { NotAnswered, type RpcAnswer, type RpcWire } from "./rpc-wire.ts";

export interface UpstreamRequest {
  readonly method: string;
  readonly params: Json;
  /** Sent along in `_meta`; what the era needs there is added. */
  readonly meta: Json;
  /** What the request is about, as the era without a handshake repeats it in a header. */
  readonly name: string | null;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly onMessage?: ((message: Json) => void) | undefined;
}

export interface ToolRequest {
  readonly tool: string;
  /** Canonical JSON, relayed as it is. */
  readonly argumentsJson: string;
  /** Other params of the call, such as what a client answers to a result that asked for input. */
  readonly rest?: Json;
  readonly meta: Json;
  readonly headers: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
  readonly onMessage?: ((message: Json) => void) | undefined;
  readonly onLate?: ((answer: RpcAnswer) => void) | undefined;
}

/** What a server says of itself. */
export interface ServerFacts {
  readonly modern: boolean;
  readonly capabilities: Json;
  readonly serverInfo: Json | null;
  readonly instructions: string | null;
}

const PROBE_MS = 3_000;
const HANDSHAKE_MS = 10_000;
const LIST_MS = 15_000;
const PAGES_MAX = 50;
const TOOLS_MAX = 1_000;

/** Errors that only a modern server gives: it answers the probe by them and is not asked for a handshake. */
const MODERN_ERRORS: ReadonlySet<number> = new Set([RPC.headerMismatch, RPC.missingCapability, RPC.unsupportedVersion]);

const MODERN_META: Json = {
  [META_VERSION]: MODERN_VERSION,
  [META_CLIENT]: IMPLEMENTATION,
  [META_CAPABILITIES]: {},
};

const NO_SIGNAL = new AbortController().signal;

export class McpSession {
  readonly #wire: RpcWire;
  readonly facts: ServerFacts;

  private constructor(wire: RpcWire, facts: ServerFacts) {
    this.#wire = wire;
    this.facts = facts;
  }

  /** Rejects with `NotAnswered`, or with `tool_upstream_failed` when the server speaks no revision we know. */
  static async open(wire: RpcWire): Promise<McpSession> {
    const discovered = await discover(wire);
    if (discovered !== null) {
      wire.speak(MODERN_VERSION);
      return new McpSession(wire, factsOf(discovered, true));
    }
    const [newest] = HANDSHAKE_VERSIONS;
    const params = { protocolVersion: newest, capabilities: {}, clientInfo: IMPLEMENTATION };
    const answer = await wire.request({ ...plain("initialize", params), timeoutMs: HANDSHAKE_MS });
    const version = answer.kind === "result" ? answer.result.protocolVersion : null;
    if (typeof version !== "string" || !HANDSHAKE_VERSIONS.includes(version)) {
      throw new PlatformError("tool_upstream_failed", "The tool server speaks no revision of MCP that is known here.");
    }
    wire.speak(version);
    await wire.notify("notifications/initialized", "{}");
    return new McpSession(wire, factsOf(answer.kind === "result" ? answer.result : {}, false));
  }

  /** Every tool as the server lists it. Rejects with `NotAnswered` or `tool_upstream_failed`. */
  async listTools(): Promise<readonly Json[]> {
    const tools: Json[] = [];
    let cursor: unknown;
    for (let page = 0; page < PAGES_MAX; page += 1) {
      const params = { ...(cursor === undefined ? {} : { cursor }), ...this.#metaMember({}) };
      const answer = await this.#wire.request({ ...plain("tools/list", params), timeoutMs: LIST_MS });
      if (answer.kind === "error") {
        throw new PlatformError("tool_upstream_failed", "The tool server does not list its tools.");
      }
      if (Array.isArray(answer.result.tools)) tools.push(...answer.result.tools.filter(isObject));
      cursor = answer.result.nextCursor;
      if (typeof cursor !== "string") return tools;
      if (tools.length > TOOLS_MAX) break;
    }
    throw new PlatformError("tool_upstream_failed", "The tool server lists too many tools.");
  }

  /** Rejects with `NotAnswered`. */
  callTool(request: ToolRequest): Promise<RpcAnswer> {
    const { tool, argumentsJson, meta, rest } = request;
    const _meta = JSON.stringify(this.#whole(meta));
    const more = rest === undefined || Object.keys(rest).length === 0 ? "" : `,${JSON.stringify(rest).slice(1, -1)}`;
    return this.#wire.request({
      ...request,
      method: "tools/call",
      params: `{"name":${JSON.stringify(tool)},"arguments":${argumentsJson},"_meta":${_meta}${more}}`,
      name: tool,
    });
  }

  /** Anything else. Rejects with `NotAnswered`. */
  ask(request: UpstreamRequest): Promise<RpcAnswer> {
    const params = JSON.stringify({ ...request.params, ...this.#metaMember(request.meta) });
    return this.#wire.request({ ...request, params, headers: {} });
  }

  /** A caller may say what its client can do; who asks and in which revision is ours to say. */
  #whole(meta: Json): Json {
    if (!this.facts.modern) return meta;
    const declared = meta[META_CAPABILITIES];
    return { ...meta, ...MODERN_META, ...(declared === undefined ? {} : { [META_CAPABILITIES]: declared }) };
  }

  #metaMember(meta: Json): Json {
    const whole = this.#whole(meta);
    return Object.keys(whole).length === 0 ? {} : { _meta: whole };
  }
}

/**
 * What a server of the era without a handshake says of itself, or `null`: one that does not know the question is an
 * older one; so is one that says nothing to it. One that cannot be reached is neither.
 */
async function discover(wire: RpcWire): Promise<Json | null> {
  try {
    const answer = await wire.request({ ...plain("server/discover", { _meta: MODERN_META }), timeoutMs: PROBE_MS });
    if (answer.kind === "result") return offersModern(answer.result, "supportedVersions") ? answer.result : null;
    return MODERN_ERRORS.has(answer.code) && offersModern(answer.data, "supported") ? {} : null;
  } catch (thrown) {
    if (thrown instanceof NotAnswered && thrown.code === "tool_timeout") return null;
    throw thrown;
  }
}

function factsOf(said: Json, modern: boolean): ServerFacts {
  const { capabilities, serverInfo, instructions, _meta } = said;
  const inMeta = isObject(_meta) ? _meta[META_SERVER] : null;
  return {
    modern,
    capabilities: isObject(capabilities) ? capabilities : {},
    serverInfo: isObject(serverInfo) ? serverInfo : isObject(inMeta) ? inMeta : null,
    instructions: typeof instructions === "string" ? instructions : null,
  };
}

function offersModern(value: unknown, member: string): boolean {
  const versions = isObject(value) ? value[member] : null;
  return Array.isArray(versions) && versions.includes(MODERN_VERSION);
}

function plain(method: string, params: Json) {
  return { method, params: JSON.stringify(params), name: null, headers: {}, signal: NO_SIGNAL };
}
