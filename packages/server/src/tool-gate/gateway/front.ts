/**
 * An MCP server of ours with tool servers behind it: several under prefixed names, or one whose transport or era is
 * another than its client's. Without sessions in either era; what a server keeps for a client hangs on the principal.
 * A server that cannot be reached takes nothing of the others with it, and is named as degraded.
 */
import type { Clock, Log } from "@signalbox/core";
import type { ClientJudge } from "../../gates/client-judge.ts";
import type { ListenStreams } from "../listen-streams.ts";
import {
  HANDSHAKE_VERSIONS,
  IMPLEMENTATION,
  isObject,
  META_SERVER,
  RPC,
  SUPPORTED_VERSIONS,
  type Json,
} from "../mcp-protocol.ts";
import { McpReply } from "../mcp-reply.ts";
import { McpProblem, type McpRequest } from "../mcp-request.ts";
import type { ToolCatalog } from "../tool-catalog.ts";
import type { UpstreamPool } from "../upstream-pool.ts";
import type { ClientCancels } from "./client-cancels.ts";
import { goneSignal, type ClientMessage, type Exchange } from "./exchange.ts";
import { FrontCall } from "./front-call.ts";
import { FrontLists } from "./front-lists.ts";
import type { GatewayCalls } from "./gateway-calls.ts";
import type { Naming } from "./naming.ts";

export interface FrontPorts {
  /** In the order in which their things are listed. */
  readonly servers: readonly string[];
  readonly naming: Naming;
  /** `null`: the gateway's own, where several servers stand behind it. */
  readonly single: string | null;
  readonly catalog: ToolCatalog;
  readonly pool: UpstreamPool;
  readonly calls: GatewayCalls;
  readonly judge: ClientJudge;
  readonly listening: ListenStreams;
  readonly clock: Clock;
  readonly log: Log;
  readonly scrub: (server: string, text: string) => string;
  readonly quietMs: number;
  /** How long a list waits for its slowest server. */
  readonly listMs: number;
  readonly requestMs: number;
  readonly stopping: AbortSignal;
  readonly cancels: ClientCancels;
}

const NOT_CACHED = { ttlMs: 0, cacheScope: "private" };
const CAPABILITIES = { tools: {}, prompts: {}, resources: {}, completions: {} };

export class Front {
  readonly #ports: FrontPorts;
  readonly #lists: FrontLists;

  constructor(ports: FrontPorts) {
    this.#ports = ports;
    this.#lists = new FrontLists(ports);
  }

  async post(exchange: Exchange, message: ClientMessage): Promise<void> {
    if (!("id" in message)) {
      if ("method" in message && message.method === "notifications/cancelled") {
        this.#ports.cancels.cancel(cancelKey(exchange, message.params.requestId));
      }
      exchange.response.writeHead(202).end();
      return;
    }
    const reply = new McpReply(exchange.response, message.id);
    if (message.method === "tools/call") {
      await this.#call(exchange, message, reply);
      return;
    }
    if (message.modern && message.method === "subscriptions/listen") {
      const { listening } = this.#ports;
      const { response, principal: tokenHash } = exchange;
      await listening.serve({ request: message, response, tokenHash, lists: ["toolsListChanged"] });
      return;
    }
    const done = new AbortController();
    const alive = reply.keepAlive(this.#ports.clock, this.#ports.quietMs, done.signal);
    try {
      const result = await this.#answer(exchange, message);
      reply.result(JSON.stringify(message.modern ? modernResult(result) : legacyResult(result)));
    } finally {
      done.abort("answered");
      await alive;
    }
  }

  #answer(exchange: Exchange, message: McpRequest): Promise<Json> {
    const { principal, response } = exchange;
    const { stopping, requestMs } = this.#ports;
    const asked = {
      principal,
      message,
      signal: AbortSignal.any([goneSignal(response), stopping, AbortSignal.timeout(requestMs)]),
    };
    switch (`${message.modern ? "modern" : "handshake"} ${message.method}`) {
      case "modern server/discover":
        return this.#greeting().then((said) => ({ ...said, supportedVersions: SUPPORTED_VERSIONS, ...NOT_CACHED }));
      case "handshake initialize":
        return this.#greeting().then((said) => ({
          ...said,
          protocolVersion: versionFor(message),
          serverInfo: IMPLEMENTATION,
        }));
      case "handshake ping":
        return Promise.resolve({});
      default:
        break;
    }
    switch (message.method) {
      case "tools/list":
        return this.#lists.tools(exchange);
      case "prompts/list":
        return this.#lists.prompts(asked);
      case "resources/list":
        return this.#lists.resources(asked);
      case "resources/templates/list":
        return this.#lists.templates(asked);
      case "prompts/get":
      case "resources/read":
      case "completion/complete":
        return this.#lists.ask(asked);
      default: {
        const status = message.modern ? 404 : 200;
        throw new McpProblem("Method not found", { status, rpcCode: RPC.methodNotFound, id: message.id });
      }
    }
  }

  async #greeting(): Promise<Json> {
    const { single, catalog } = this.#ports;
    if (single === null) return { capabilities: { ...CAPABILITIES, tools: { listChanged: true } } };
    const facts = await catalog.server(single)?.facts();
    const { tools, prompts, resources, completions } = facts?.capabilities ?? {};
    const offered = { tools, prompts, resources, completions };
    const capabilities = Object.fromEntries(
      Object.entries(offered).flatMap(([name, value]) => (isObject(value) ? [[name, {}]] : [])),
    );
    return {
      capabilities,
      ...(facts?.instructions === null || facts === undefined ? {} : { instructions: facts.instructions }),
    };
  }

  async #call(exchange: Exchange, message: McpRequest, reply: McpReply): Promise<void> {
    const cancel = new AbortController();
    const key = cancelKey(exchange, message.id);
    using _ = this.#ports.cancels.begin(key, () => cancel.abort("cancelled"));
    await new FrontCall(this.#ports, { exchange, message, reply, cancelled: cancel.signal }).run();
  }
}

function cancelKey({ principal, endpoint }: Exchange, requestId: unknown): string {
  return JSON.stringify([principal, endpoint, requestId]);
}

function versionFor({ params }: McpRequest): unknown {
  return HANDSHAKE_VERSIONS.find((version) => version === params.protocolVersion) ?? HANDSHAKE_VERSIONS[0];
}

function modernResult(result: Json): Json {
  const { resultType, _meta, ...rest } = result;
  const meta = { ...(isObject(_meta) ? _meta : {}), [META_SERVER]: IMPLEMENTATION };
  return { resultType: resultType ?? "complete", ...rest, _meta: meta };
}

/** Without what only the newer era has words for. */
function legacyResult(result: Json): Json {
  const { resultType, ttlMs: _, cacheScope: __, ...rest } = result;
  if (resultType === undefined || resultType === "complete") return rest;
  throw new McpProblem("The server asks for input, which this revision of the protocol cannot carry.", {
    status: 200,
    rpcCode: RPC.missingCapability,
  });
}
