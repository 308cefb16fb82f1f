/**
 * One platform process: what its roles need is joined, started in order and stopped in the opposite one. Roles that run
 * elsewhere meet this process at the record, and at the addresses it was given.
 */
import { createSupervisor, LIMITS, Presence, type Log, type Supervisor } from "@signalbox/core";
import { createApi, listen } from "../api/server.ts";
import type { Offer } from "../channels/truth/offer-record.ts";
import type { ServerConfig } from "../config/server-config.ts";
import { openDatabase, type Database } from "../database/open-database.ts";
import { embeddedWitness } from "../database/store-witness.ts";
import { migrate } from "../store/migrations.ts";
import { systemCancellation, systemClock, systemDigest, systemRandomness } from "../system/ports.ts";
import { createLog } from "../telemetry/log.ts";
import type { FunctionServer } from "../tool-gate/function-tool.ts";
import { derive, platformSecret } from "../tenancy/secret.ts";
import { ConnectedWorkers } from "../workers/pool.ts";
import type { HeldSession } from "../workers/worker-connection.ts";
import { ensureDevKey } from "./api-keys.ts";
import { apiServices, type ApiParts } from "./api-services.ts";
import { directConfigOf } from "./direct-config.ts";
import { EndingStack } from "./ending-stack.ts";
import { startListener } from "./gates.ts";
import { Offers } from "./offers.ts";
import { portProblem } from "./port-problem.ts";
import { unreadinessOf } from "./readiness.ts";
import { startUpkeep } from "./upkeep.ts";
import { startDeliveries } from "./webhooks.ts";
import { openRecord, type PlatformRecord, type RecordOptions } from "./record.ts";

export interface PlatformOptions {
  readonly log: "json" | "text";
  /** Of the program that this process is part of. */
  readonly functions?: FunctionServer;
}

export interface Platform extends AsyncDisposable {
  /** Of the API; `null` where this process has none. */
  readonly url: string | null;
  /** Of the listener for engines and workers; `null` where this process has neither gates nor a supervisor. */
  readonly gatesUrl: string | null;
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

  // Filled in below: workers are told of them when they are dialled.
  const gateUrls = gateUrlsAt("");
  const runSide: RunSide = { supervisor: null, workers: null };
  if (config.roles.includes("supervisor")) {
    const judge = (held: readonly HeldSession[]): Promise<void> => runSide.judge?.(held) ?? Promise.resolve();
    runSide.workers = starting.use(connectWorkers({ joinToken, gateUrls, log, runSide, judge }));
  }
  const expectedSeat = runSide.workers?.expectedSeat.bind(runSide.workers) ?? (() => null);
  const record = starting.use(
    openRecord({ ...recordPlaces(config, database), directConfig, log, expectedSeat, secret }),
  );
  runSide.judge = (held) => record.processes.judgeSessions(held);
  const incarnation = await startPresence({ config, record, log, runSide, starting });
  const offers = new Offers({ record: record.offers, own: () => ownOffer(config, runSide), process: incarnation, log });
  runSide.offers = offers;
  const unreadiness = unreadinessOf({ roles: config.roles, record, runSide, offers, process: incarnation });
  const { workers } = runSide;
  const { functions = null } = options;
  const parts = { config, record, log, workers, joinToken, secret, process: incarnation, unreadiness, functions };
  const listener = config.roles.includes("gates") || workers !== null ? starting.use(await startListener(parts)) : null;
  const gatesUrl = listener?.url ?? null;
  const gateway = listener?.gateway ?? null;
  Object.assign(gateUrls, gateUrlsAt(config.gatesUrl ?? gatesUrl ?? ""));
  leadRuns(runSide.supervisor, record, starting);
  starting.use(offers);
  await offers.start();
  const url = config.roles.includes("api")
    ? await startApi(
        { config, record, supervisor: runSide.supervisor, offers, unreadiness, secret, log, gateway },
        starting,
      )
    : null;
  const running = starting.move();
  log.info("platform started", { roles: config.roles, url, gates: gatesUrl, database: database.kind });
  return {
    url,
    gatesUrl,
    joinToken,
    log,
    ensureDevKey: () => ensureDevKey(record.queries.apiKeys, secret),
    [Symbol.asyncDispose]: () => running[Symbol.asyncDispose](),
  };
}

function leadRuns(supervisor: Supervisor | null, record: PlatformRecord, starting: EndingStack): void {
  if (supervisor === null) return;
  // Disposed before gates and workers: a draining run still needs both.
  starting.use(supervisor);
  starting.defer(record.live.onSupervisorsRung(supervisor.wake.bind(supervisor)));
}

function gateUrlsAt(url: string): { readonly modelUrl: string; readonly toolUrl: string; readonly recordUrl: string } {
  return { modelUrl: `${url}/model`, toolUrl: `${url}/mcp/units/default`, recordUrl: url };
}

interface RunSide {
  supervisor: Supervisor | null;
  workers: ConnectedWorkers | null;
  offers?: Offers;
  /** Hears what a worker that comes says it holds. */
  judge?: (held: readonly HeldSession[]) => Promise<void>;
}

function connectWorkers(parts: {
  readonly joinToken: string;
  readonly gateUrls: ReturnType<typeof gateUrlsAt>;
  readonly log: Log;
  readonly runSide: RunSide;
  readonly judge: (held: readonly HeldSession[]) => Promise<void>;
}): ConnectedWorkers {
  const { joinToken, gateUrls, log, runSide, judge } = parts;
  return new ConnectedWorkers({
    joinToken,
    supervisor: `${process.pid}`,
    gates: gateUrls,
    clock: systemClock,
    randomness: systemRandomness,
    log,
    onSessions: judge,
    onRoom: (cause) => {
      if (cause === "seat") {
        runSide.supervisor?.roomGrew();
        return;
      }
      runSide.supervisor?.wake();
      runSide.offers?.wake();
    },
  });
}

interface PresenceParts {
  readonly config: ServerConfig;
  readonly record: PlatformRecord;
  readonly log: Log;
  readonly runSide: RunSide;
  readonly starting: EndingStack;
}

/**
 * Registers a process that drives runs or decides at gates, and answers how to ask which one it is. A process that only
 * answers clients owns nothing and is nobody in the record.
 */
async function startPresence(parts: PresenceParts): Promise<() => number | null> {
  const { config, record, log, runSide, starting } = parts;
  const roles = config.roles.filter((role) => role !== "worker");
  const ports = {
    clock: systemClock,
    cancellation: systemCancellation,
    randomness: systemRandomness,
    digest: systemDigest,
    log,
  };
  if (runSide.workers !== null) {
    const { ownership, processes, live } = record;
    const supervisor = createSupervisor(
      { ...ports, record: ownership, processes, pool: runSide.workers, live },
      { roles },
    );
    runSide.supervisor = supervisor;
    // Twice, since draining is idempotent: here for a start that fails, and later in its place among the others.
    starting.use(supervisor);
    await supervisor.start();
    starting.use(startUpkeep(record, { log, retentionDays: config.retentionDays }));
    const { deliveries, sealer } = record;
    const onRung = record.live.onRung.bind(record.live);
    starting.use(startDeliveries({ deliveries, sealer, egressAllow: config.egressAllow, onRung, log }));
    return () => supervisor.process();
  }
  if (!config.roles.includes("gates")) return () => null;
  const { processes } = record;
  // Gates without a lease deny by themselves: there is nothing to stop and nothing to take up again.
  const quiet = (): void => undefined;
  const presence = new Presence({ processes, ports, limits: LIMITS, roles, onLapse: quiet, onHeld: quiet });
  starting.use(presence);
  await presence.start();
  return () => presence.process();
}

function ownOffer(config: ServerConfig, runSide: RunSide): Offer {
  return {
    runtimes: runSide.workers?.runtimes() ?? [],
    providers: config.roles.includes("gates")
      ? config.providers.map(({ name, simulated }) => ({ name, simulated }))
      : [],
  };
}

async function startApi(parts: ApiParts, starting: EndingStack): Promise<string> {
  const stopping = new AbortController();
  const { host, port } = parts.config;
  const api = createApi(apiServices({ ...parts, stopping: stopping.signal }));
  starting.defer(() => api.close());
  starting.defer(() => stopping.abort());
  return await listen(api, { host, port }).catch((thrown: unknown) => {
    throw portProblem(thrown, port);
  });
}

function recordPlaces(
  { dataDir, egressAllow }: ServerConfig,
  { kind, pgConfig }: Database,
): Pick<RecordOptions, "config" | "egressAllow" | "witness"> {
  const places = { config: pgConfig, egressAllow };
  // Only an embedded store lies where this process can look.
  return kind === "embedded" ? { ...places, witness: embeddedWitness(dataDir) } : places;
}
