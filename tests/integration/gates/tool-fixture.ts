/** A tool gate with scripted servers behind it, a run whose calls were proposed, and an engine that makes them. */
import type { Snapshot, SnapshotTool } from "@signalbox/contract";
import { canonicalJson, makeId, NO_USAGE, uuidV7Bytes } from "@signalbox/contract";
import type { Posture } from "@signalbox/contract";
import type { Log, ToolJudge } from "@signalbox/core";
import { MemoryToolStore } from "@signalbox/testkit";
import { createGateServer, type Gate, type GateServer } from "../../../packages/server/src/gates/gate-server.ts";
import { HttpClient } from "../../../packages/server/src/gates/http-client.ts";
import { systemClock, systemDigest, systemRandomness } from "../../../packages/server/src/system/ports.ts";
import { ToolCatalog } from "../../../packages/server/src/tool-gate/tool-catalog.ts";
import {
  createToolGate,
  type ToolGate,
  type ToolGateLimits,
} from "../../../packages/server/src/tool-gate/tool-gate.ts";
import type { ToolServerConfig } from "../../../packages/server/src/tool-gate/tool-server.ts";
import { allowing } from "./allowing.ts";
import { UpstreamPool } from "../../../packages/server/src/tool-gate/upstream-pool.ts";
import { recordingLog } from "./gate-fixture.ts";
import { snapshotWith, TOKEN, TOKEN_HASH, WatchedRecord } from "./watched-record.ts";

export const MODERN = "2026-07-28";

export interface CatalogFixtureOptions {
  readonly servers: Readonly<Record<string, ToolServerConfig>>;
  readonly store?: MemoryToolStore;
  readonly listingMaxAgeMs?: number;
  readonly recordsMaxAgeMs?: number;
  readonly posture?: Posture;
}

export function newCatalog(options: CatalogFixtureOptions, log = recordingLog()): ToolCatalog {
  return new ToolCatalog({
    servers: options.servers,
    store: options.store ?? new MemoryToolStore(),
    tenantId: "default",
    posture: options.posture ?? "dev",
    recordsMaxAgeMs: options.recordsMaxAgeMs ?? 0,
    clock: systemClock,
    digest: systemDigest,
    randomness: systemRandomness,
    log,
    ...(options.listingMaxAgeMs === undefined ? {} : { listingMaxAgeMs: options.listingMaxAgeMs }),
  });
}

/** Connections for whoever calls, as the platform keeps them. */
export function newPool(
  servers: CatalogFixtureOptions["servers"],
  { log, http }: { readonly log: Log; readonly http: HttpClient },
): UpstreamPool {
  return new UpstreamPool({
    servers,
    clock: systemClock,
    randomness: systemRandomness,
    digest: systemDigest,
    log,
    http,
  });
}

/** The tools of a catalogue as an agent's snapshot freezes them. */
export function frozenTools(catalog: ToolCatalog): readonly SnapshotTool[] {
  return catalog.tools().map((tool) => {
    const { name, server, title, description, inputSchema, effect, definitionHash } = tool;
    return { name, server, tool: tool.tool, title, description, inputSchema, effect, definitionHash };
  });
}

export interface ToolFixture extends AsyncDisposable {
  readonly record: WatchedRecord;
  readonly catalog: ToolCatalog;
  readonly store: MemoryToolStore;
  readonly gate: ToolGate;
  readonly server: GateServer;
  readonly url: string;
  readonly log: ReturnType<typeof recordingLog>;
}

export interface ToolFixtureOptions extends CatalogFixtureOptions {
  readonly limits?: Partial<ToolGateLimits>;
  /** Allows everything unless the test says otherwise. */
  readonly judge?: ToolJudge;
  /** Changes what the agent was given, after the tools were listed. */
  readonly tools?: (listed: readonly SnapshotTool[]) => Snapshot["tools"];
}

const nothing: Gate = { handle: (_request, response) => response.writeHead(404).end() };

export async function startToolFixture(options: ToolFixtureOptions): Promise<ToolFixture> {
  const log = recordingLog();
  const store = options.store ?? new MemoryToolStore();
  const catalog = newCatalog({ ...options, store }, log);
  await catalog.start();
  const listed = frozenTools(catalog);
  const record = await WatchedRecord.open(snapshotWith({ tools: options.tools?.(listed) ?? listed }));
  const http = new HttpClient();
  const pool = newPool(options.servers, { log, http });
  pool.onChanged((server) => catalog.distrust(server));
  const gate = createToolGate({
    record,
    pool,
    judge: options.judge ?? allowing,
    catalog,
    clock: systemClock,
    process: () => record.process,
    digest: systemDigest,
    randomness: systemRandomness,
    log,
    ...(options.limits === undefined ? {} : { limits: options.limits }),
  });
  const server = await createGateServer({
    modelGate: nothing,
    toolGate: gate,
    connectRoutes: [],
    messageBytesMax: 1024 * 1024,
    host: "127.0.0.1",
    port: 0,
    clock: systemClock,
  });
  return {
    record,
    catalog,
    store,
    gate,
    server,
    log,
    url: `${server.url}/mcp/units/default`,
    async [Symbol.asyncDispose]() {
      await gate[Symbol.asyncDispose]();
      await server.close({ graceMs: 200 });
      await pool[Symbol.asyncDispose]();
      await catalog[Symbol.asyncDispose]();
      http[Symbol.dispose]();
    },
  };
}

export interface ProposedCall {
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
}

/** What the model gate records when a message with these calls has ended. */
export async function propose(record: WatchedRecord, ...calls: readonly ProposedCall[]): Promise<void> {
  const modelCallId = makeId("modelCall", uuidV7Bytes(Date.now(), systemRandomness.bytes(10)));
  const { process } = record;
  const intent = {
    tokenHash: TOKEN_HASH,
    modelCallId,
    process,
    wire: "anthropic",
    requestedModel: "sim/sim-1",
  } as const;
  const view = await record.openModelCall({ ...intent, requestBytes: 1, rules: [] });
  const proposals = calls.map(({ id, name, input }) => {
    const tool = view.snapshot.tools.find((each) => each.name === name);
    const argumentsJson = canonicalJson(input);
    return {
      toolCallId: makeId("toolCall", uuidV7Bytes(Date.now(), systemRandomness.bytes(10))),
      toolUseId: id,
      name,
      server: tool?.server ?? null,
      tool: tool?.tool ?? null,
      effect: tool?.effect ?? "irreversible",
      definitionHash: tool?.definitionHash ?? null,
      argumentsJson,
      argumentsDigest: systemDigest.sha256Hex(argumentsJson),
      callDigest: null,
      judged: null,
    } as const;
  });
  const nothingSpent = { servedModel: "sim-1", usage: NO_USAGE, costMicros: 0, priceVersion: "sim" };
  const settlement = { ...nothingSpent, modelCallId, stopReason: "tool_use", errorCode: null, proposals };
  const { proposalsAccepted } = await record.settleModelCall({ ...settlement, state: "succeeded" });
  if (!proposalsAccepted) throw new Error("the proposals were not accepted");
}

export interface RpcAnswer {
  readonly status: number;
  readonly headers: Headers;
  readonly body: string;
  readonly message: {
    readonly id?: unknown;
    readonly result?: Readonly<Record<string, unknown>>;
    readonly error?: {
      readonly code: number;
      readonly message: string;
      readonly data?: Readonly<Record<string, unknown>>;
    };
  };
}

export interface RpcOptions {
  readonly params?: Readonly<Record<string, unknown>>;
  readonly meta?: Readonly<Record<string, unknown>>;
  readonly headers?: Readonly<Record<string, string>>;
  /** Default: the modern era with all its headers. */
  readonly era?: "modern" | "handshake";
  readonly id?: string | number;
  readonly signal?: AbortSignal;
}

const MODERN_META = {
  "io.modelcontextprotocol/protocolVersion": MODERN,
  "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};

export function post(url: string, method: string, options: RpcOptions = {}): Promise<Response> {
  const { params = {}, meta = {}, era = "modern", id = 1 } = options;
  const modern = era === "modern";
  const _meta = { ...meta, ...(modern ? MODERN_META : {}) };
  const mirrored = { "mcp-protocol-version": MODERN, "mcp-method": method };
  return fetch(url, {
    method: "POST",
    headers: {
      authorization: `Bearer ${TOKEN}`,
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      ...(modern ? mirrored : {}),
      ...(modern && typeof params.name === "string" ? { "mcp-name": params.name } : {}),
      ...options.headers,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id, method, params: { ...params, _meta } }),
    ...(options.signal === undefined ? {} : { signal: options.signal }),
  });
}

export async function rpc(url: string, method: string, options: RpcOptions = {}): Promise<RpcAnswer> {
  return readRpc(await post(url, method, options));
}

async function readRpc(response: Response): Promise<RpcAnswer> {
  const body = await response.text();
  const json =
    response.headers.get("content-type")?.startsWith("text/event-stream") === true
      ? (/^data: (.*)$/m.exec(body)?.[1] ?? "")
      : body;
  return { status: response.status, headers: response.headers, body, message: json === "" ? {} : JSON.parse(json) };
}

/** A call as the Claude CLI makes it. */
export function callTool(url: string, call: ProposedCall, options: RpcOptions = {}): Promise<RpcAnswer> {
  return rpc(url, "tools/call", {
    ...options,
    params: { name: call.name, arguments: call.input },
    meta: { "claudecode/toolUseId": call.id, ...options.meta },
  });
}

/** The text of a result's first block. */
export function textOf(answer: RpcAnswer): string {
  const content = answer.message.result?.content;
  return Array.isArray(content) ? String(content[0]?.text) : JSON.stringify(answer.message);
}
