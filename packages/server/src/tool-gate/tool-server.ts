/**
 * One tool server of the operator, kept running: connected on first use, connected again when it died, with a growing
 * pause while it keeps dying. One connection is shared by all callers.
 */
import { asPlatformError } from "@signalbox/contract";
import { backoffMs, type Clock, type Log, type Randomness, type ToolSettings } from "@signalbox/core";
import type { HttpClient } from "../gates/http-client.ts";
import type { FunctionTool } from "./function-tool.ts";
import { FunctionWire } from "./function-wire.ts";
import { HttpWire, SessionLost } from "./http-wire.ts";
import { McpSession, type ServerFacts, type ToolRequest, type UpstreamRequest } from "./mcp-session.ts";
import type { Json } from "./mcp-protocol.ts";
import { NotAnswered, type RpcAnswer } from "./rpc-wire.ts";
import { StdioWire } from "./stdio-wire.ts";
import { UpstreamAuth, type ClientCredentials } from "./upstream-auth.ts";

/** What the operator's file says of a tool. */
export interface FileSettings {
  readonly effect: "read" | "egress_read" | "write" | "irreversible";
  readonly timeoutMs?: number | undefined;
  /** Whether a person is asked before a call; `policy` where nothing is said. */
  readonly approve?: "policy" | "always" | "never" | undefined;
  readonly isTrusted?: boolean | undefined;
}

/**
 * What clients with an API key of their own get of a server: nothing, the tools that were given an effect class, or all
 * tools. Left out: `classified`.
 */
export type ClientsSetting = "none" | "classified" | "all";

/** As the operator declares it. */
export type ToolServerConfig =
  | {
      readonly transport: "stdio";
      readonly command: string;
      readonly args: readonly string[];
      readonly env: Readonly<Record<string, string>>;
      readonly cwd?: string | undefined;
      readonly tools: Readonly<Record<string, FileSettings>>;
      readonly clients?: ClientsSetting | undefined;
    }
  | {
      readonly transport: "http";
      readonly url: string;
      readonly headers: Readonly<Record<string, string>>;
      /** How the platform gets a token of its own for this server. */
      readonly oauth?: ClientCredentials | undefined;
      readonly tools: Readonly<Record<string, FileSettings>>;
      readonly clients?: ClientsSetting | undefined;
    }
  | {
      /** Functions of this process; nobody but its own runs reaches them. */
      readonly transport: "functions";
      readonly functions: readonly FunctionTool[];
      readonly tools: Readonly<Record<string, FileSettings>>;
      readonly clients: "none";
    };

/** What the file says of one tool, with what it leaves to us filled in. */
export function settingsOf({ tools }: ToolServerConfig, tool: string): ToolSettings | null {
  const said = Object.hasOwn(tools, tool) ? tools[tool] : undefined;
  if (said === undefined) return null;
  const { effect, approve = "policy", isTrusted = false, timeoutMs = null } = said;
  return { effect, approve, isTrusted, timeoutMs };
}

export interface ToolServerPorts {
  readonly clock: Clock;
  readonly randomness: Randomness;
  readonly log: Log;
  readonly http: HttpClient;
  /** Shared by all connections to the server. Left out: made of the server's own declaration. */
  readonly auth?: UpstreamAuth | null;
  /** The server said that its list changed, or a new connection means that it may have. */
  readonly onChanged: () => void;
}

interface Connection {
  readonly session: McpSession;
  end(): Promise<void>;
}

const BACKOFF_BASE_MS = 200;
const BACKOFF_CAP_MS = 30_000;
/** A pause this short is waited out; during a longer one callers are told at once. */
const PAUSE_WAITED_MS = 2_000;
/** A server that ran this long before it ended starts over without a pause. */
const STEADY_MS = 30_000;

export class ToolServer implements AsyncDisposable {
  readonly name: string;
  readonly config: ToolServerConfig;
  readonly #ports: ToolServerPorts;
  readonly #auth: UpstreamAuth | null;
  readonly #ended = new Set<Promise<void>>();
  #connection: Promise<Connection> | null = null;
  #failureCount = 0;
  #notBeforeMs = 0;
  #disposed = false;
  #stateless = false;

  constructor(name: string, config: ToolServerConfig, ports: ToolServerPorts) {
    this.name = name;
    this.config = config;
    this.#ports = ports;
    this.#auth = ports.auth ?? authOf(config, ports);
  }

  /** Connects when there is no connection. Rejects like `list`. */
  async connect(): Promise<void> {
    await this.#connected();
  }

  /** Every tool as the server lists it now. Rejects with `NotAnswered` or a `PlatformError`. */
  list(): Promise<readonly Json[]> {
    return this.#with((session) => session.listTools());
  }

  /** Whether a connection to this server is known to be no place where anything is kept. */
  get isStateless(): boolean {
    return this.#stateless;
  }

  /** What the server says of itself. Connects when there is no connection; rejects like `list`. */
  async facts(): Promise<ServerFacts> {
    return (await this.#connected()).session.facts;
  }

  /** Any request but a tool's call. Rejects with `NotAnswered`. */
  ask(request: UpstreamRequest): Promise<RpcAnswer> {
    return this.#with((session) => session.ask(request));
  }

  /** Rejects with `NotAnswered`; `sent` tells whether the tool may have acted. */
  call(request: ToolRequest): Promise<RpcAnswer> {
    return this.#with((session) => session.callTool(request));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#disposed = true;
    const connection = await this.#connection?.catch(() => null);
    await connection?.end();
    await Promise.all(this.#ended);
  }

  async #with<T>(use: (session: McpSession) => Promise<T>): Promise<T> {
    const connection = this.#connected();
    try {
      return await use((await connection).session);
    } catch (thrown) {
      if (thrown instanceof NotAnswered && thrown.code === "tool_upstream_failed") this.#drop(connection);
      // The server looked at nothing: the same request may be made once more in a new session.
      if (thrown instanceof SessionLost) return await use((await this.#connected()).session);
      throw thrown;
    }
  }

  #connected(): Promise<Connection> {
    this.#connection ??= this.#connect();
    return this.#connection;
  }

  #drop(connection: Promise<Connection>): void {
    if (this.#connection === connection) this.#connection = null;
  }

  async #connect(): Promise<Connection> {
    const { clock, onChanged } = this.#ports;
    const pauseMs = this.#notBeforeMs - clock.monotonicMs();
    if (this.#disposed || pauseMs > PAUSE_WAITED_MS) {
      this.#connection = null;
      throw new NotAnswered("tool_upstream_failed", { sent: false, detail: "The tool server is not running." });
    }
    if (pauseMs > 0) await clock.sleep(pauseMs);
    try {
      const connection =
        this.config.transport === "stdio"
          ? await this.#start(this.config)
          : this.config.transport === "http"
            ? await this.#reach(this.config)
            : await this.#enter(this.config);
      onChanged();
      return connection;
    } catch (thrown) {
      this.#connection = null;
      this.#failed();
      if (thrown instanceof NotAnswered) {
        throw new NotAnswered(thrown.code, { sent: false, detail: thrown.message, cause: thrown });
      }
      const { code, detail } = asPlatformError(thrown);
      throw new NotAnswered(code, { sent: false, detail, cause: thrown });
    }
  }

  async #start(config: Extract<ToolServerConfig, { readonly transport: "stdio" }>): Promise<Connection> {
    const { clock, log, onChanged } = this.#ports;
    const startedAtMs = clock.monotonicMs();
    const wire = new StdioWire(
      { ...config, cwd: config.cwd },
      { clock, onNotification: (method) => this.#notice(method) },
    );
    const end = (): Promise<void> => wire[Symbol.asyncDispose]();
    let session: McpSession;
    try {
      session = await McpSession.open(wire);
    } catch (thrown) {
      await end();
      log.warn("a tool server did not start", { server: this.name, lastWords: wire.lastWords });
      throw thrown;
    }
    const connection = { session, end };
    const ended = wire.exited.then(() => {
      this.#ended.delete(ended);
      if (this.#disposed) return;
      this.#connection = null;
      if (clock.monotonicMs() - startedAtMs >= STEADY_MS) this.#failureCount = 0;
      else this.#failed();
      log.warn("a tool server ended", { server: this.name });
      onChanged();
    });
    this.#ended.add(ended);
    return connection;
  }

  async #reach(config: Extract<ToolServerConfig, { readonly transport: "http" }>): Promise<Connection> {
    const { http, clock } = this.#ports;
    const wire = new HttpWire(
      { ...config, auth: this.#auth },
      { http, clock, onNotification: (method) => this.#notice(method) },
    );
    const session = await McpSession.open(wire);
    this.#stateless = session.facts.modern;
    this.#failureCount = 0;
    return { session, end: () => wire.leave() };
  }

  async #enter({ functions }: Extract<ToolServerConfig, { readonly transport: "functions" }>): Promise<Connection> {
    const wire = new FunctionWire(functions, this.#ports);
    this.#stateless = true;
    return { session: await McpSession.open(wire), end: () => wire[Symbol.asyncDispose]() };
  }

  #failed(): void {
    this.#failureCount += 1;
    const fraction = this.#ports.randomness.fraction();
    const pauseMs = backoffMs(this.#failureCount, { baseMs: BACKOFF_BASE_MS, capMs: BACKOFF_CAP_MS, fraction });
    this.#notBeforeMs = this.#ports.clock.monotonicMs() + pauseMs;
  }

  #notice(method: string): void {
    if (method === "notifications/tools/list_changed") this.#ports.onChanged();
  }
}

/** The platform's token for a server that wants one; `null` for any other. */
export function authOf(
  config: ToolServerConfig,
  ports: { readonly http: HttpClient; readonly clock: Clock },
): UpstreamAuth | null {
  return config.transport === "http" && config.oauth !== undefined ? new UpstreamAuth(config.oauth, ports) : null;
}

/** Where a server stands, in the words that must not leave the platform. */
export function placesOf(config: ToolServerConfig): readonly string[] {
  switch (config.transport) {
    case "http":
      return [config.url, new URL(config.url).host];
    case "stdio":
      return [config.cwd ?? "", config.command];
    case "functions":
      return [];
  }
}
