/**
 * The whole platform inside another program: database, API, gates and supervisor, and a worker for each runtime. It takes
 * no signal handlers and ends nothing but itself.
 */
import { resolve } from "node:path";
import { createAgentSchema, DEFAULT_RUNTIME, PlatformError, type CreateAgent } from "@signalbox/contract";
import { Signalbox } from "@signalbox/client";
import { lineLog, startWorker, systemClock as workerClock } from "@signalbox/worker";
import { ConfigurationError, type Environment } from "../config/environment.ts";
import { DEFAULT_ROLES } from "../config/roles.ts";
import { readServerConfig, type ServerConfig } from "../config/server-config.ts";
import type { FunctionTool } from "../tool-gate/function-tool.ts";
import type { LogLevel } from "../telemetry/log.ts";
import { EndingStack } from "./ending-stack.ts";
import { executorOf, RUNTIMES } from "./executors.ts";
import { startPlatform, type Platform } from "./platform.ts";

/** An agent as a program declares it. What is left out has the default of `POST /v1/agents`. */
export interface AgentDeclaration extends Partial<Omit<CreateAgent, "name" | "model">> {
  /** `provider/model`. */
  readonly model: string;
  /** Names of functions given to `open`, or `server/tool` of a tool server. */
  readonly tools?: string[];
}

/** What `open` takes; everything may be left out. */
export interface OpenOptions {
  /** Functions of this program that agents may call, made with `defineTool`. */
  readonly tools?: readonly FunctionTool[];
  /** Agents by name: created when there is none, and given a new revision when they differ. */
  readonly agents?: Readonly<Record<string, AgentDeclaration>>;
  /** Where database and secrets are kept. Default: `SIGNALBOX_DATA_DIR`, else `.signalbox`. */
  readonly dataDir?: string;
  /** A PostgreSQL of your own. Default: `DATABASE_URL`, else an embedded one in `dataDir`. */
  readonly databaseUrl?: string;
  /** Address the API listens on. Default: 127.0.0.1, any free port. */
  readonly host?: string;
  readonly port?: number;
  /** Tool servers, as the file of `--mcp-servers`. Default: `SIGNALBOX_MCP_SERVERS`. */
  readonly mcpServers?: string;
  /** Default: `warn`. Lines go to standard error. */
  readonly logLevel?: LogLevel;
  /** Where models are named (`ANTHROPIC_API_KEY`, `OLLAMA_HOST`, `SIGNALBOX_SIM_URL` …). Default: `process.env`. */
  readonly environment?: Readonly<Record<string, string | undefined>>;
}

/** A platform that runs in this process. */
export interface OpenPlatform extends AsyncDisposable {
  /** Of the API. */
  readonly url: string;
  /** A key with every right. */
  readonly apiKey: string;
  /** A client with that key. */
  readonly client: Signalbox;
  /** Lets what runs come to an end within its bound, hands over the rest, and closes everything. Idempotent. */
  close(): Promise<void>;
}

/** Functions are tools of a server of this name: models see `app__name`. */
const FUNCTION_SERVER = "app";
const RUNTIME_WAIT_MS = 30_000;
const RUNTIME_POLL_MS = 50;

/** Data directories that this process has open. */
const opened = new Set<string>();

/**
 * Starts a platform in this process, with the agents and functions of this program. One process opens a data directory
 * once: a second `open` rejects with `command_refused`. Rejects with what an agent cannot be (`tool_unknown`,
 * `model_unknown`, `runtime_unknown`, `SDK_UNAVAILABLE` …) and with a `ConfigurationError` that says what to change.
 */
export async function open(options: OpenOptions = {}): Promise<OpenPlatform> {
  const config = configOf(options);
  const place = resolve(config.dataDir);
  if (opened.has(place)) throw new PlatformError("command_refused", `This process has ${place} open already.`);
  opened.add(place);
  await using starting = new EndingStack();
  starting.defer(() => {
    opened.delete(place);
  });
  const agents = Object.entries(options.agents ?? {});
  const runtimes = runtimesOf(agents.map(([, agent]) => agent.runtime ?? DEFAULT_RUNTIME));
  const loaders = new Map(runtimes.map((runtime) => [runtime, executorOf(runtime)]));
  // Ended after the platform: a run that drains still needs its worker.
  const workers = starting.use(new EndingStack());
  const platform = starting.use(
    await startPlatform(config, {
      log: "text",
      functions: { name: FUNCTION_SERVER, tools: distinct(options.tools ?? []) },
    }),
  );
  for (const [runtime, load] of loaders) {
    if (load !== null) workers.use(await startWorker(workerOf({ runtime, load, platform, config })));
  }
  const { url } = platform;
  if (url === null) throw new Error("a platform that was opened has an API");
  const apiKey = await platform.ensureDevKey();
  const client = new Signalbox({ url, apiKey });
  await offered(client, runtimes);
  const functions = new Set((options.tools ?? []).map(({ name }) => name));
  for (const [name, agent] of agents) await declare(client, name, { ...agent, tools: namesOf(agent, functions) });
  const running = starting.move();
  let ending: Promise<void> | null = null;
  const close = (): Promise<void> => (ending ??= running[Symbol.asyncDispose]());
  return { url, apiKey, client, close, [Symbol.asyncDispose]: close };
}

function configOf(options: OpenOptions): ServerConfig {
  const { host = "127.0.0.1", port = 0, dataDir, databaseUrl, mcpServers, logLevel = "warn" } = options;
  const environment: Environment = options.environment ?? process.env;
  const config = readServerConfig(
    { host, port: String(port), gatesPort: "0", dataDir, mcpServers, logLevel },
    databaseUrl === undefined ? environment : { ...environment, DATABASE_URL: databaseUrl, DATABASE_URL_FILE: "" },
  );
  return { ...config, roles: DEFAULT_ROLES };
}

function runtimesOf(named: readonly string[]): readonly string[] {
  const runtimes = [...new Set([DEFAULT_RUNTIME, ...named])];
  const unknown = runtimes.find((runtime) => executorOf(runtime) === null);
  if (unknown === undefined) return runtimes;
  throw new PlatformError("runtime_unknown", `There is no runtime "${unknown}"; known are ${RUNTIMES.join(", ")}.`);
}

function distinct(tools: readonly FunctionTool[]): readonly FunctionTool[] {
  const twice = tools.find(({ name }, place) => tools.findIndex((each) => each.name === name) !== place);
  if (twice === undefined) return tools;
  throw new ConfigurationError(`Two functions have the name ${twice.name}.`);
}

function workerOf(parts: {
  readonly runtime: string;
  readonly load: NonNullable<ReturnType<typeof executorOf>>;
  readonly platform: Platform;
  readonly config: ServerConfig;
}): Parameters<typeof startWorker>[0] {
  const { runtime, load, platform, config } = parts;
  return {
    joinToken: platform.joinToken,
    platformUrl: platform.gatesUrl ?? "",
    runtimes: { [runtime]: load },
    defaultRuntime: runtime,
    log: lineLog(
      (line) => process.stderr.write(line),
      () => workerClock.nowMs(),
      config.logLevel,
    ),
  };
}

/** Workers have announced themselves; one whose engine is not installed has as well, with the reason. */
async function offered(client: Signalbox, runtimes: readonly string[]): Promise<void> {
  const giveUpAtMs = workerClock.monotonicMs() + RUNTIME_WAIT_MS;
  for (;;) {
    const known = await client.runtimes();
    const missing = runtimes.filter((name) => !known.some((each) => each.name === name && each.workers > 0));
    if (missing.length === 0) return;
    if (workerClock.monotonicMs() > giveUpAtMs) {
      throw new PlatformError("no_worker", `No worker for ${missing.join(", ")} came within 30 s.`);
    }
    await workerClock.sleep(RUNTIME_POLL_MS);
  }
}

function namesOf(agent: AgentDeclaration, functions: ReadonlySet<string>): string[] {
  return (agent.tools ?? []).map((tool) => (functions.has(tool) ? `${FUNCTION_SERVER}/${tool}` : tool));
}

async function declare(client: Signalbox, name: string, agent: AgentDeclaration): Promise<void> {
  // What is left out is as it would be in a new agent, not as an earlier declaration had it.
  const { name: _name, ...whole } = createAgentSchema.parse({ ...agent, name });
  try {
    await client.agents.create({ ...whole, name });
  } catch (thrown) {
    if (!(thrown instanceof Error && "code" in thrown && thrown.code === "agent_name_taken")) throw thrown;
    await client.agents.update(name, { ...whole, disabled: false });
  }
}
