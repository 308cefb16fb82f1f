/** What one platform process works with. Precedence: flags, then environment, then defaults. */
import { resolve } from "node:path";
import type { Posture } from "@signalbox/contract";
import { DAY_MS, LIMITS } from "@signalbox/core";
import { readEgressAllow, type EgressAllowConfig } from "./egress-allow.ts";
import { ConfigurationError, countOf, portOf, secretOf, textOf, type Environment } from "./environment.ts";
import { readMcpServers, type McpServersConfig } from "./mcp-servers.ts";
import { demandNeighbours, rolesOf, type ProcessRole } from "./roles.ts";
import type { LogLevel } from "../telemetry/log.ts";

const DEFAULT_PORT = 4620;
const OLLAMA_PORT = "11434";
const SECRET_CHARS_MIN = 16;
const DEFAULT_RETENTION_DAYS = LIMITS.eventRetentionMs / DAY_MS;
const RETENTION_DAYS_MAX = 36_500;

export interface ProviderConfig {
  readonly name: string;
  readonly baseUrl: string;
  readonly wire: "anthropic";
  readonly apiKey: string | null;
  /** True for the `sim` model, which answers are never a real model's. */
  readonly simulated: boolean;
}

export interface ServerConfig {
  readonly roles: readonly ProcessRole[];
  readonly host: string;
  readonly port: number;
  readonly gatesHost: string;
  readonly gatesPort: number;
  /** Where engines reach the gates, when not at this process's own listener. */
  readonly gatesUrl: string | null;
  /** The listener of the supervisor that workers of this process register with, when it is another's. */
  readonly platformUrl: string | null;
  readonly dataDir: string;
  readonly databaseUrl: string | null;
  /** Bypasses a connection pooler for LISTEN and presence; defaults to `databaseUrl`. */
  readonly databaseDirectUrl: string | null;
  readonly joinToken: string | null;
  /** Keys the HMAC of API keys; `null`: kept in the data directory, made on first use. */
  readonly secret: string | null;
  readonly providers: readonly ProviderConfig[];
  readonly mcpServers: McpServersConfig;
  /** How tools are met that nobody has approved or classified. */
  readonly posture: Posture;
  /** How much a conversation may be sent, and a tenant may have open. */
  readonly admissionLimits: {
    readonly queueCount: number;
    readonly messagesPerMinuteCount: number;
    readonly tenantRunCount: number;
  };
  /** What addresses that tenants give may reach besides the public network. */
  readonly egressAllow: EgressAllowConfig;
  /** Host names under which clients of the gateway reach the platform; empty: its own, or any behind a listener for all. */
  readonly allowedHosts: readonly string[];
  readonly logLevel: LogLevel;
  /** Events of runs that ended longer ago are forgotten. */
  readonly retentionDays: number;
}

export interface ServerFlags {
  readonly role?: string | undefined;
  readonly host?: string | undefined;
  readonly port?: string | undefined;
  readonly gatesPort?: string | undefined;
  readonly dataDir?: string | undefined;
  readonly mcpServers?: string | undefined;
  /** Where neither this nor the environment says it: `dev`. */
  readonly posture?: string | undefined;
  readonly logLevel?: string | undefined;
}

const LOG_LEVELS: readonly LogLevel[] = ["info", "warn", "error", "silent"];

export function readServerConfig(flags: ServerFlags, environment: Environment): ServerConfig {
  const host = flags.host ?? textOf(environment, "HOST") ?? "127.0.0.1";
  const port = portOf(flags.port ?? textOf(environment, "PORT") ?? String(DEFAULT_PORT), "PORT");
  const databaseUrl = secretOf(environment, "DATABASE_URL");
  const surroundings = {
    roles: rolesOf(flags.role ?? textOf(environment, "SIGNALBOX_ROLE")),
    gatesUrl: urlOf(environment, "SIGNALBOX_GATES_URL"),
    platformUrl: urlOf(environment, "SIGNALBOX_PLATFORM_URL"),
    joinToken: longEnough(secretOf(environment, "SIGNALBOX_JOIN_TOKEN"), "SIGNALBOX_JOIN_TOKEN"),
  };
  demandNeighbours(surroundings);
  return {
    ...surroundings,
    host,
    port,
    gatesHost: textOf(environment, "SIGNALBOX_GATES_HOST") ?? host,
    gatesPort: portOf(
      flags.gatesPort ?? textOf(environment, "SIGNALBOX_GATES_PORT") ?? String(port === 0 ? 0 : port + 1),
      "SIGNALBOX_GATES_PORT",
    ),
    dataDir: dataDirOf(flags.dataDir, environment),
    databaseUrl,
    databaseDirectUrl: secretOf(environment, "SIGNALBOX_DATABASE_DIRECT_URL") ?? databaseUrl,
    secret: longEnough(secretOf(environment, "SIGNALBOX_SECRET"), "SIGNALBOX_SECRET"),
    providers: readProviders(environment),
    admissionLimits: {
      queueCount: countOf(environment, "SIGNALBOX_QUEUE_LENGTH", LIMITS.queueCount),
      messagesPerMinuteCount: countOf(environment, "SIGNALBOX_MESSAGES_PER_MINUTE", LIMITS.messagesPerMinuteCount),
      tenantRunCount: countOf(environment, "SIGNALBOX_TENANT_RUNS", LIMITS.tenantRunCount),
    },
    allowedHosts: namesOf(textOf(environment, "SIGNALBOX_ALLOWED_HOSTS")),
    mcpServers: readMcpServers(flags.mcpServers ?? textOf(environment, "SIGNALBOX_MCP_SERVERS")),
    egressAllow: readEgressAllow(environment),
    posture: postureOf(flags.posture ?? textOf(environment, "SIGNALBOX_POSTURE") ?? "dev"),
    retentionDays: daysOf(textOf(environment, "SIGNALBOX_RETENTION_DAYS") ?? String(DEFAULT_RETENTION_DAYS)),
    logLevel: logLevelOf(flags.logLevel ?? textOf(environment, "SIGNALBOX_LOG_LEVEL") ?? "info"),
  };
}

/** Absolute; also for commands that only look for what a platform left there. */
export function dataDirOf(flag: string | undefined, environment: Environment): string {
  return resolve(flag ?? textOf(environment, "SIGNALBOX_DATA_DIR") ?? ".signalbox");
}

/** Scheme, host and port, without a slash at the end. */
function urlOf(environment: Environment, name: string): string | null {
  const text = textOf(environment, name);
  if (text === null) return null;
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol) || url.pathname !== "/" || url.search !== "") {
    throw new ConfigurationError(`${name} must be an address such as http://10.0.0.7:4621, not "${text}".`);
  }
  return url.origin;
}

/** Names of hosts without port, separated by commas. */
function namesOf(text: string | null): readonly string[] {
  const names = (text ?? "").split(",").map((name) => name.trim().toLowerCase());
  const wrong = names.find((name) => name !== "" && !/^[a-z0-9.:_-]+$/.test(name));
  if (wrong !== undefined) {
    throw new ConfigurationError(`SIGNALBOX_ALLOWED_HOSTS names hosts without scheme and path, not "${wrong}".`);
  }
  return names.filter((name) => name !== "");
}

/** Whoever guesses one of these may run agents here, or speak for anybody. */
function longEnough(secret: string | null, name: string): string | null {
  if (secret === null || secret.length >= SECRET_CHARS_MIN) return secret;
  throw new ConfigurationError(
    `${name} is too short to be a secret: it needs at least ${SECRET_CHARS_MIN} characters.`,
  );
}

function readProviders(environment: Environment): readonly ProviderConfig[] {
  const providers: ProviderConfig[] = [];
  const simUrl = textOf(environment, "SIGNALBOX_SIM_URL");
  if (simUrl !== null) providers.push(providerOf("sim", simUrl, null));
  const anthropicKey = secretOf(environment, "ANTHROPIC_API_KEY");
  if (anthropicKey !== null) {
    providers.push(
      providerOf("anthropic", textOf(environment, "ANTHROPIC_BASE_URL") ?? "https://api.anthropic.com", anthropicKey),
    );
  }
  const ollama = textOf(environment, "OLLAMA_HOST");
  if (ollama !== null) providers.push(providerOf("ollama", ollamaUrl(ollama), null));
  return providers;
}

/** As Ollama's own clients read it: host, host:port or URL; an address to listen on is one to call on this machine. */
function ollamaUrl(text: string): string {
  if (/^https?:\/\//.test(text)) return text;
  const url = URL.parse(`http://${text.startsWith(":") ? "127.0.0.1" : ""}${text}`);
  if (url === null) return text;
  return `http://${url.hostname === "0.0.0.0" ? "127.0.0.1" : url.hostname}:${url.port === "" ? OLLAMA_PORT : url.port}`;
}

function providerOf(name: string, baseUrl: string, apiKey: string | null): ProviderConfig {
  const url = URL.parse(baseUrl);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new ConfigurationError(`The address of the provider ${name} is not a URL: "${baseUrl}".`);
  }
  return { name, baseUrl: url.href.replace(/\/+$/, ""), wire: "anthropic", apiKey, simulated: name === "sim" };
}

function daysOf(text: string): number {
  const days = /^[0-9]{1,5}$/.test(text) ? Number(text) : Number.NaN;
  if (!(days >= 1 && days <= RETENTION_DAYS_MAX)) {
    throw new ConfigurationError(
      `SIGNALBOX_RETENTION_DAYS must be a whole number of days from 1 to ${RETENTION_DAYS_MAX}, not "${text}".`,
    );
  }
  return days;
}

function postureOf(text: string): Posture {
  if (text === "dev" || text === "production") return text;
  throw new ConfigurationError(`SIGNALBOX_POSTURE must be dev or production, not "${text}".`);
}

export function logLevelOf(text: string): LogLevel {
  const level = LOG_LEVELS.find((each) => each === text);
  if (level === undefined) {
    throw new ConfigurationError(`The log level must be one of ${LOG_LEVELS.join(", ")}, not "${text}".`);
  }
  return level;
}
