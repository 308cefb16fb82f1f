/** One platform process: everything joined, started in order and stopped in the opposite one. */
import { makeId, PlatformError, uuidV7Bytes, type RuntimeInfo } from "@signalbox/contract";
import {
  createAdmission,
  createOperators,
  createSupervisor,
  createUpkeep,
  DAY_MS,
  LIMITS,
  type Log,
  type Supervisor,
} from "@signalbox/core";
import { createApi, listen } from "../api/server.ts";
import type { ApiServices } from "../api/services.ts";
import type { ServerConfig } from "../config/server-config.ts";
import { openDatabase, type Database } from "../database/open-database.ts";
import { createKeptCalls } from "../gates/kept-calls.ts";
import { createGateServer } from "../gates/gate-server.ts";
import { createModelGate } from "../model-gate/model-gate.ts";
import { recordRoutes } from "../record-gate/record-gate.ts";
import { migrate } from "../store/migrations.ts";
import { systemCancellation, systemClock, systemDigest, systemRandomness } from "../system/ports.ts";
import { createLog } from "../telemetry/log.ts";
import { derive, platformSecret } from "../tenancy/secret.ts";
import { ToolCatalog } from "../tool-gate/tool-catalog.ts";
import { createToolGate } from "../tool-gate/tool-gate.ts";
import { ConnectedWorkers } from "../workers/pool.ts";
import { registryRoutes } from "../workers/registry-service.ts";
import { VERSION } from "../version.ts";
import { DEFAULT_TENANT, ensureDevKey } from "./api-keys.ts";
import { createApiRecord } from "./api-record.ts";
import { createOperatorView } from "./operator-view.ts";
import { openRecord, type PlatformRecord } from "./record.ts";
import { EndingStack } from "./ending-stack.ts";

/** A worker that hears from no supervisor for this long ends its engines itself. */
const WORKER_LEASE_MS = 10_000;
const CONNECT_MESSAGE_BYTES = 8 * 1024 * 1024;
const ROLES = ["api", "gates", "supervisor"] as const;

export interface PlatformOptions {
  readonly log: "json" | "text";
}

export interface Platform extends AsyncDisposable {
  readonly url: string;
  readonly gatesUrl: string;
  readonly joinToken: string;
  readonly log: Log;
  /** A key with every right, the same over restarts. */
  ensureDevKey(): Promise<string>;
}

export async function startPlatform(config: ServerConfig, options: PlatformOptions): Promise<Platform> {
  const log = createLog({
    level: config.logLevel,
    format: options.log,
    write: (line) => process.stderr.write(line),
    nowMs: () => systemClock.nowMs(),
  });
  await using starting = new EndingStack();
  const secret = platformSecret(config.secret, config.dataDir);
  const joinToken = config.joinToken ?? derive(secret, "join token");
  const database = starting.use(await openDatabase({ url: config.databaseUrl ?? "", dataDir: config.dataDir }));
  const directConfig = directConfigOf(config, database);
  await migrate(directConfig);
  const gateUrls = { modelUrl: "", toolUrl: "", recordUrl: "" };
  const stopping = new AbortController();
  let supervisor: Supervisor | null = null;
  const workers = starting.use(
    new ConnectedWorkers({
      joinToken,
      supervisor: `${process.pid}`,
      gates: gateUrls,
      clock: systemClock,
      randomness: systemRandomness,
      log,
      onRoom: (cause) => (cause === "seat" ? supervisor?.roomGrew() : supervisor?.wake()),
    }),
  );
  const expectedSeat = workers.expectedSeat.bind(workers);
  const record = starting.use(openRecord({ config: database.pgConfig, directConfig, log, expectedSeat }));
  supervisor = createRunSide({ record, workers, log });
  // Twice, since draining is idempotent: here for a start that fails, and below in its place among the others.
  starting.use(supervisor);
  await supervisor.start();
  starting.use(startUpkeep(record, { log, retentionDays: config.retentionDays }));
  const gates = await startGates({ config, record, log, workers, supervisor, joinToken });
  starting.use(gates);
  Object.assign(gateUrls, {
    modelUrl: `${gates.url}/model`,
    toolUrl: `${gates.url}/mcp/units/default`,
    recordUrl: gates.url,
  });
  // Disposed before gates and workers: a draining run still needs both.
  starting.use(supervisor);
  starting.defer(record.onSupervisorsRung(supervisor.wake.bind(supervisor)));

  const api = createApi(apiServices({ config, record, workers, supervisor, secret, log, stopping: stopping.signal }));
  starting.defer(() => api.close());
  starting.defer(() => stopping.abort());
  const url = await listen(api, { host: config.host, port: config.port }).catch((thrown: unknown) => {
    throw portProblem(thrown, config.port);
  });
  const running = starting.move();
  log.info("platform started", { url, gates: gates.url, database: database.kind });
  return {
    url,
    gatesUrl: gates.url,
    joinToken,
    log,
    ensureDevKey: () => ensureDevKey(record.queries.apiKeys, secret),
    [Symbol.asyncDispose]: () => running[Symbol.asyncDispose](),
  };
}

function createRunSide(parts: {
  readonly record: PlatformRecord;
  readonly workers: ConnectedWorkers;
  readonly log: Log;
}): Supervisor {
  const { record, workers, log } = parts;
  return createSupervisor(
    {
      record: record.ownership,
      processes: record.processes,
      pool: workers,
      live: record.live,
      clock: systemClock,
      cancellation: systemCancellation,
      randomness: systemRandomness,
      digest: systemDigest,
      log,
    },
    { roles: ROLES },
  );
}

function startUpkeep(
  record: PlatformRecord,
  options: { readonly log: Log; readonly retentionDays: number },
): AsyncDisposable {
  const ports = {
    clock: systemClock,
    cancellation: systemCancellation,
    randomness: systemRandomness,
    log: options.log,
  };
  const eventRetentionMs = options.retentionDays * DAY_MS;
  const upkeep = createUpkeep({ ...ports, record: record.upkeep }, { eventRetentionMs });
  upkeep.start();
  return upkeep;
}

interface GateParts {
  readonly config: ServerConfig;
  readonly record: PlatformRecord;
  readonly log: Log;
  readonly workers: ConnectedWorkers;
  readonly supervisor: Supervisor;
  readonly joinToken: string;
}

async function startGates(parts: GateParts): Promise<AsyncDisposable & { readonly url: string }> {
  const { config, record, log, workers, supervisor, joinToken } = parts;
  await using starting = new EndingStack();
  const ports = { clock: systemClock, digest: systemDigest, randomness: systemRandomness, log };
  const incarnation = (): number => {
    const process = supervisor.process();
    // A gate that cannot tell whether it may still decide denies.
    if (process === null) throw new PlatformError("database_unavailable", "This process is not sure of its lease.");
    return process;
  };
  const catalog = starting.use(
    new ToolCatalog({ ...ports, servers: config.mcpServers, store: record.queries.tools, tenantId: DEFAULT_TENANT }),
  );
  await catalog.start();
  const kept = createKeptCalls({
    record: record.gates,
    subscribe: (conversationId) => record.live.subscribe(conversationId),
    clock: systemClock,
  });
  const modelGate = starting.use(
    createModelGate({
      ...ports,
      record: kept.record,
      boundSnapshot: record.boundSnapshot,
      withheldTools: (snapshot) => catalog.withheld(snapshot),
      providers: config.providers,
      process: incarnation,
    }),
  );
  const toolGate = starting.use(createToolGate({ ...ports, record: kept.record, catalog, process: incarnation }));
  const server = starting.use(
    await createGateServer({
      modelGate,
      toolGate,
      connectRoutes: [
        recordRoutes({ ...ports, record: record.gates }),
        registryRoutes({ joinToken, leaseMs: WORKER_LEASE_MS, workers }),
      ],
      messageBytesMax: CONNECT_MESSAGE_BYTES,
      host: config.gatesHost,
      port: config.gatesPort,
      clock: systemClock,
    }).catch((thrown: unknown) => {
      throw portProblem(thrown, config.gatesPort);
    }),
  );
  // Disposed first: a gate that leaves waits for every call it keeps.
  starting.defer(() => kept[Symbol.dispose]());
  const running = starting.move();
  return { url: server.url, [Symbol.asyncDispose]: () => running[Symbol.asyncDispose]() };
}

function apiServices(parts: {
  readonly config: ServerConfig;
  readonly record: PlatformRecord;
  readonly workers: ConnectedWorkers;
  readonly supervisor: Supervisor;
  readonly secret: string;
  readonly log: Log;
  readonly stopping: AbortSignal;
}): ApiServices {
  const { config, record, workers, supervisor, secret, log, stopping } = parts;
  const freshUuid = (): Uint8Array => uuidV7Bytes(systemClock.nowMs(), systemRandomness.bytes(10));
  return {
    record: createApiRecord(record.queries),
    admission: createAdmission(
      {
        record: record.admission,
        handover: supervisor,
        live: record.live,
        steerable: () => steerableOf(workers.runtimes()),
        clock: systemClock,
        randomness: systemRandomness,
        digest: systemDigest,
      },
      { ...LIMITS, ...config.admissionLimits },
    ),
    admissionLimits: config.admissionLimits,
    operators: createOperators({ record: record.operators, live: record.live }),
    operatorView: createOperatorView(record.operatorQueries),
    subscribe: (conversationId) => record.live.subscribe(conversationId),
    runtimes: () => workers.runtimes(),
    eventRetentionDays: config.retentionDays,
    providers: () => config.providers.map(({ name, simulated }) => ({ name, simulated })),
    unreadiness: () => problemsOf(record, { workers, supervisor }),
    digest: systemDigest,
    newAgentId: () => makeId("agent", freshUuid()),
    newStopId: () => makeId("stop", freshUuid()),
    newConversationId: () => makeId("conversation", freshUuid()),
    secret,
    monotonicMs: () => systemClock.monotonicMs(),
    log,
    version: VERSION,
    stopping,
  };
}

/** Runtimes that announce that their engines take in messages while they run. */
function steerableOf(runtimes: readonly RuntimeInfo[]): readonly string[] {
  return runtimes
    .filter(({ available, capabilities }) => available && capabilities.includes("steering"))
    .map(({ name }) => name);
}

async function problemsOf(
  record: PlatformRecord,
  process: { readonly workers: ConnectedWorkers; readonly supervisor: Supervisor },
): Promise<readonly string[]> {
  const problems: string[] = [];
  await record.ping().catch(() => problems.push("the database does not answer"));
  if (process.supervisor.process() === null) problems.push("this process is not sure of its lease");
  if (!process.workers.runtimes().some((runtime) => runtime.available)) problems.push("no worker is connected");
  return problems;
}

function directConfigOf(config: ServerConfig, database: Database): Database["pgConfig"] {
  const direct = config.databaseDirectUrl;
  return direct === null || direct === config.databaseUrl ? database.pgConfig : { connectionString: direct };
}

function portProblem(thrown: unknown, port: number): unknown {
  const code = thrown instanceof Error && "code" in thrown ? thrown.code : null;
  if (code === "EADDRINUSE") {
    return new PlatformError("invalid_request", `Port ${port} is in use. Choose another with --port or --gates-port.`, {
      cause: thrown,
    });
  }
  if (code === "EACCES") {
    return new PlatformError("invalid_request", `Port ${port} needs more rights. Choose one above 1023 with --port.`, {
      cause: thrown,
    });
  }
  return thrown;
}
