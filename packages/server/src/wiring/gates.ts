/** The listener for engines and workers: gates where this process has them, the registry where it has a supervisor. */
import { PlatformError } from "@signalbox/contract";
import { DAY_MS, LIMITS, type Log, type ToolJudge } from "@signalbox/core";
import { Callers, demand } from "../api/caller.ts";
import type { ServerConfig } from "../config/server-config.ts";
import { createClientJudge, type ClientJudge } from "../gates/client-judge.ts";
import { createGateServer, type GateServerOptions } from "../gates/gate-server.ts";
import { HttpClient } from "../gates/http-client.ts";
import { createKeptCalls } from "../gates/kept-calls.ts";
import { createPolicyJudge, wordOf } from "../gates/policy-judge.ts";
import { PolicySource } from "../gates/policy-source.ts";
import { createModelGate } from "../model-gate/model-gate.ts";
import { recordRoutes } from "../record-gate/record-gate.ts";
import { systemClock, systemDigest, systemRandomness } from "../system/ports.ts";
import { wireName } from "../tool-gate/tool-definition.ts";
import { ToolCatalog } from "../tool-gate/tool-catalog.ts";
import { createGateway, type Gateway } from "../tool-gate/gateway/gateway.ts";
import { hostsOf } from "../tool-gate/gateway/host-rule.ts";
import type { FunctionServer } from "../tool-gate/function-tool.ts";
import { createToolGate } from "../tool-gate/tool-gate.ts";
import type { FileSettings, ToolServerConfig } from "../tool-gate/tool-server.ts";
import { UpstreamPool } from "../tool-gate/upstream-pool.ts";
import type { ConnectedWorkers } from "../workers/pool.ts";
import { registryRoutes } from "../workers/registry-service.ts";
import { derive } from "../tenancy/secret.ts";
import { createApiRecord } from "./api-record.ts";
import { DEFAULT_TENANT } from "./api-keys.ts";
import { EndingStack } from "./ending-stack.ts";
import { portProblem } from "./port-problem.ts";
import type { PlatformRecord } from "./record.ts";

/** A worker that hears from no supervisor for this long ends its engines itself. */
const WORKER_LEASE_MS = 10_000;
const CONNECT_MESSAGE_BYTES = 8 * 1024 * 1024;
const CLOSE_GRACE_MS = 1_000;
/** Rung in place of a conversation when an operator decided something about a tool. */
const TOOLS_BELL = "tools";

export interface GateParts {
  readonly config: ServerConfig;
  readonly record: PlatformRecord;
  readonly log: Log;
  /** Workers that register here; `null` where this process has no supervisor. */
  readonly workers: ConnectedWorkers | null;
  readonly joinToken: string;
  readonly secret: string;
  /** This process in the record while it is sure of its lease. */
  readonly process: () => number | null;
  readonly unreadiness: () => Promise<readonly string[]>;
  /** Judges tool calls in place of the policy that is kept for the tenant. */
  readonly judge?: ToolJudge;
  /** Of the program that this process is part of. */
  readonly functions: FunctionServer | null;
}

export interface Listener extends AsyncDisposable {
  readonly url: string;
  /** For clients with an API key; `null` where this process has no gates. */
  readonly gateway: Gateway | null;
}

export async function startListener(parts: GateParts): Promise<Listener> {
  const { config, workers, joinToken } = parts;
  await using starting = new EndingStack();
  const gates = config.roles.includes("gates") ? await openGates(parts, starting) : null;
  const registry = workers === null ? [] : [registryRoutes({ joinToken, leaseMs: WORKER_LEASE_MS, workers })];
  const server = await createGateServer({
    modelGate: gates?.modelGate ?? null,
    toolGate: gates?.toolGate ?? null,
    gateway: gates?.gateway ?? null,
    unreadiness: parts.unreadiness,
    connectRoutes: [...(gates?.connectRoutes ?? []), ...registry],
    messageBytesMax: CONNECT_MESSAGE_BYTES,
    host: config.gatesHost,
    port: config.gatesPort,
    clock: systemClock,
  }).catch((thrown: unknown) => {
    throw portProblem(thrown, config.gatesPort);
  });
  // Beside a supervisor nothing is under way any more when it has drained; other supervisors' runs go on meanwhile.
  const graceMs = workers === null ? LIMITS.drainMs : CLOSE_GRACE_MS;
  starting.defer(() => server.close({ graceMs }));
  // Disposed first: a gate that leaves waits for every call it keeps.
  starting.defer(() => gates?.kept[Symbol.dispose]());
  const running = starting.move();
  return {
    url: server.url,
    gateway: gates?.gateway ?? null,
    [Symbol.asyncDispose]: () => running[Symbol.asyncDispose](),
  };
}

interface OpenGates extends Pick<GateServerOptions, "modelGate" | "toolGate" | "connectRoutes"> {
  readonly gateway: Gateway;
  readonly kept: Disposable;
}

async function openGates(parts: GateParts, starting: EndingStack): Promise<OpenGates> {
  const { config, record, log } = parts;
  const ports = { clock: systemClock, digest: systemDigest, randomness: systemRandomness, log };
  const incarnation = (): number => {
    const process = parts.process();
    // A gate that cannot tell whether it may still decide denies.
    if (process === null) throw new PlatformError("database_unavailable", "This process is not sure of its lease.");
    return process;
  };
  const servers = { ...config.mcpServers, ...functionServer(parts.functions) };
  const http = starting.use(new HttpClient());
  const pool = starting.use(new UpstreamPool({ ...ports, servers, http }));
  const changed: (() => void)[] = [];
  const catalog = starting.use(
    new ToolCatalog({
      ...ports,
      servers,
      store: record.queries.tools,
      tenantId: DEFAULT_TENANT,
      posture: config.posture,
      auth: (server) => pool.auth(server),
      onToolsChanged: () => changed.forEach((told) => told()),
    }),
  );
  pool.onChanged((server) => catalog.distrust(server));
  await catalog.start();
  const policy = judgesByPolicy(parts, { catalog, starting, onChanged: () => changed.forEach((told) => told()) });
  const judge = parts.judge ?? policy.judge;
  const kept = createKeptCalls({
    record: record.gates,
    subscribe: (conversationId) => record.live.subscribe(conversationId),
    clock: systemClock,
  });
  const modelGate = starting.use(
    createModelGate({
      ...ports,
      judge,
      record: kept.record,
      boundSnapshot: record.boundSnapshot,
      withheldTools: (snapshot) => catalog.withheld(snapshot),
      providers: config.providers,
      process: incarnation,
    }),
  );
  const toolGate = starting.use(
    createToolGate({ ...ports, judge, record: kept.record, catalog, pool, process: incarnation }),
  );
  const gateway = starting.use(openGateway(parts, { catalog, pool, process: incarnation, judge: policy.clients }));
  changed.push(() => gateway.toolsChanged());
  starting.defer(
    record.live.onGatesRung((conversationId) => {
      modelGate.look(conversationId);
      toolGate.look(conversationId);
      if (conversationId === null || conversationId === TOOLS_BELL) catalog.hear();
    }),
  );
  return { kept, modelGate, toolGate, gateway, connectRoutes: [recordRoutes({ ...ports, record: record.gates })] };
}

function functionServer(functions: FunctionServer | null): Readonly<Record<string, ToolServerConfig>> {
  if (functions === null || functions.tools.length === 0) return {};
  const tools: Record<string, FileSettings> = {};
  for (const { name, effect, approve, timeoutMs } of functions.tools) {
    tools[name] = { effect, approve, ...(timeoutMs === null ? {} : { timeoutMs }) };
  }
  return { [functions.name]: { transport: "functions", functions: functions.tools, tools, clients: "none" } };
}

interface Judging {
  readonly catalog: ToolCatalog;
  readonly starting: EndingStack;
  /** Told when another policy is in place. */
  readonly onChanged: () => void;
}

/** Runs and clients are judged by one policy, in the words of one operator. */
function judgesByPolicy(
  { config, record, log }: GateParts,
  { catalog, starting, onChanged }: Judging,
): { readonly judge: ToolJudge; readonly clients: ClientJudge } {
  const ports = { clock: systemClock, digest: systemDigest, log, onChanged };
  const source = starting.use(new PolicySource({ ...ports, record: record.policies, tenantId: DEFAULT_TENANT }));
  const shared = {
    source,
    words: (server: string, tool: string) => wordOf(catalog.classification({ server, tool })),
    wordsVersion: () => catalog.wordsVersion(),
    posture: config.posture,
    clock: systemClock,
  };
  const nameOf = (server: string, tool: string): string => wireName(server, tool, systemDigest);
  return {
    judge: createPolicyJudge({ ...shared, record: record.policies }),
    clients: createClientJudge({ ...shared, record: record.gateway, nameOf, log }),
  };
}

function openGateway(
  parts: GateParts,
  given: {
    readonly catalog: ToolCatalog;
    readonly pool: UpstreamPool;
    readonly process: () => number;
    readonly judge: ClientJudge;
  },
): Gateway {
  const { config, record, log, secret } = parts;
  const ports = { clock: systemClock, digest: systemDigest, randomness: systemRandomness, log };
  const callers = new Callers({
    record: createApiRecord(record.queries),
    secret,
    monotonicMs: () => systemClock.monotonicMs(),
  });
  // Reached through either listener: names are kept apart where both are for this machine alone.
  const listensOn = config.gatesHost === config.host ? config.host : "0.0.0.0";
  return createGateway({
    ...ports,
    ...given,
    servers: Object.keys(config.mcpServers),
    record: record.gateway,
    secret: derive(secret, "mcp sessions"),
    hosts: hostsOf(config.allowedHosts, listensOn),
    retentionMs: config.retentionDays * DAY_MS,
    identify: async ({ authorization, "signalbox-actor": actor }) => {
      const caller = await callers.identify({ authorization, actor: typeof actor === "string" ? actor : undefined });
      demand(caller, "tools");
      return { tenantId: caller.scope.tenantId, actor: caller.actor };
    },
  });
}
