/**
 * Connections to tool servers, one for each principal that may keep a state there: what one of them sets is seen by no
 * other. Bounded for each server, ended when nobody used them for a while.
 */
import { asPlatformError, type ErrorCode } from "@signalbox/contract";
import type { Clock, Digest, Log, Randomness, Verdict } from "@signalbox/core";
import type { HttpClient } from "../gates/http-client.ts";
import { NotAnswered } from "./rpc-wire.ts";
import { readListedTool } from "./tool-definition.ts";
import { authOf, ToolServer, type ToolServerConfig } from "./tool-server.ts";
import type { UpstreamAuth } from "./upstream-auth.ts";

export interface UpstreamPoolOptions {
  readonly servers: Readonly<Record<string, ToolServerConfig>>;
  readonly clock: Clock;
  readonly randomness: Randomness;
  readonly log: Log;
  readonly http: HttpClient;
  readonly digest: Digest;
  readonly limits?: Partial<UpstreamLimits>;
}

export interface UpstreamLimits {
  /** Of one server. A process each, where the server is one. */
  readonly connectionCount: number;
  readonly idleMs: number;
}

const LISTING_MAX_AGE_MS = 30_000;
const LIMITS: UpstreamLimits = { connectionCount: 16, idleMs: 300_000 };

/** No principal has this text. */
const NOBODY = "";

interface Pooled {
  readonly server: ToolServer;
  /** Hashes of the definitions this connection lists, by tool; `null` when it has to be asked. */
  listed: ReadonlyMap<string, string> | null;
  listedAtMs: number;
  busyCount: number;
  usedAtMs: number;
}

/** Whose connection, to which server. */
export interface PoolPlace {
  readonly server: string;
  readonly principal: string;
}

export class UpstreamPool implements AsyncDisposable {
  readonly #options: UpstreamPoolOptions;
  readonly #limits: UpstreamLimits;
  readonly #auth = new Map<string, UpstreamAuth | null>();
  readonly #pooled = new Map<string, Map<string, Pooled>>();
  /** Servers that keep nothing for a connection, as their era and transport say: all share one. */
  readonly #stateless = new Set<string>();
  readonly #ending = new Set<Promise<void>>();
  readonly #stop = new AbortController();
  #sweeping: Promise<void> | null = null;
  #changed: ((server: string) => void) | null = null;

  constructor(options: UpstreamPoolOptions) {
    this.#options = options;
    this.#limits = { ...LIMITS, ...options.limits };
    for (const [name, config] of Object.entries(options.servers)) this.#auth.set(name, authOf(config, options));
  }

  config(server: string): ToolServerConfig | null {
    return Object.hasOwn(this.#options.servers, server) ? (this.#options.servers[server] ?? null) : null;
  }

  /** The platform's token for this server, shared by everything that reaches it. */
  auth(server: string): UpstreamAuth | null {
    return this.#auth.get(server) ?? null;
  }

  /** Tells when a server said that its list changed, or was connected to anew. Must not throw. */
  onChanged(told: (server: string) => void): void {
    this.#changed = told;
  }

  /** How many connections there are to a server now. */
  count(server: string): number {
    return this.#pooled.get(server)?.size ?? 0;
  }

  /** Uses the principal's own connection. Rejects with `NotAnswered` when there are too many, or as `use` does. */
  async with<T>(
    { server, principal }: PoolPlace,
    use: (connection: ToolServer, pooled: Pooled) => Promise<T>,
  ): Promise<T> {
    const pooled = this.#of(server, this.#stateless.has(server) ? NOBODY : principal);
    pooled.busyCount += 1;
    try {
      return await use(pooled.server, pooled);
    } finally {
      if (pooled.server.isStateless) this.#stateless.add(server);
      pooled.busyCount -= 1;
      pooled.usedAtMs = this.#options.clock.monotonicMs();
    }
  }

  /**
   * Whether the principal's own connection lists the tool as it was pinned: what one process of a server says binds no
   * other. `null` when it does.
   */
  async drift(
    place: PoolPlace,
    tool: { readonly tool: string; readonly definitionHash: string },
  ): Promise<Extract<Verdict<never>, { readonly kind: "deny" }> | null> {
    try {
      return await this.with(place, async (connection, pooled) => {
        const listed = await this.#listed(connection, pooled);
        // Nothing is kept there, so nothing differs from what the catalogue sees.
        if (listed === null || listed.get(tool.tool) === tool.definitionHash) return null;
        return denied("tool_drifted", "The tool changed since it was pinned.");
      });
    } catch (thrown) {
      const code = thrown instanceof NotAnswered ? thrown.code : asPlatformError(thrown).code;
      return denied(code, "The tool server cannot be reached, so the tool cannot be checked.");
    }
  }

  async #listed(connection: ToolServer, pooled: Pooled): Promise<ReadonlyMap<string, string> | null> {
    await connection.connect();
    if (connection.isStateless) return null;
    const { clock, digest } = this.#options;
    const nowMs = clock.monotonicMs();
    if (pooled.listed !== null && nowMs - pooled.listedAtMs <= LISTING_MAX_AGE_MS) return pooled.listed;
    const entries = await connection.list();
    const tools = entries.map((entry) => readListedTool(entry, digest)).filter((tool) => typeof tool !== "string");
    pooled.listed = new Map(tools.map(({ tool, definitionHash }) => [tool, definitionHash]));
    pooled.listedAtMs = nowMs;
    return pooled.listed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort("stopping");
    for (const connections of this.#pooled.values()) {
      for (const principal of connections.keys()) this.#end(connections, principal);
    }
    await Promise.all([this.#sweeping, ...this.#ending]);
  }

  #of(name: string, principal: string): Pooled {
    const connections = this.#pooled.get(name) ?? new Map<string, Pooled>();
    this.#pooled.set(name, connections);
    const known = connections.get(principal);
    if (known !== undefined) return known;
    const config = this.config(name);
    if (config === null || this.#stop.signal.aborted) throw refused("The tool server is not running.");
    if (connections.size >= this.#limits.connectionCount && !this.#makeRoom(connections)) {
      throw refused("The tool server serves too many clients at once.");
    }
    const { clock, randomness, log, http } = this.#options;
    const onChanged = (): void => {
      pooled.listed = null;
      this.#changed?.(name);
    };
    const ports = { clock, randomness, log, http, auth: this.auth(name), onChanged };
    const pooled: Pooled = {
      server: new ToolServer(name, config, ports),
      listed: null,
      listedAtMs: 0,
      busyCount: 0,
      usedAtMs: clock.monotonicMs(),
    };
    connections.set(principal, pooled);
    this.#sweeping ??= this.#sweep();
    return pooled;
  }

  /** Whoever has not been heard of for longest makes room; who is being served does not. */
  #makeRoom(connections: Map<string, Pooled>): boolean {
    const idle = [...connections].filter(([, { busyCount }]) => busyCount === 0);
    const [oldest] = idle.sort(([, left], [, right]) => left.usedAtMs - right.usedAtMs);
    if (oldest === undefined) return false;
    this.#end(connections, oldest[0]);
    return true;
  }

  #end(connections: Map<string, Pooled>, principal: string): void {
    const pooled = connections.get(principal);
    connections.delete(principal);
    if (pooled === undefined) return;
    const ending = pooled.server[Symbol.asyncDispose]().finally(() => this.#ending.delete(ending));
    this.#ending.add(ending);
  }

  async #sweep(): Promise<void> {
    const { clock } = this.#options;
    const { idleMs } = this.#limits;
    while ((await clock.sleep(idleMs / 2, this.#stop.signal)) === "elapsed") {
      const before = clock.monotonicMs() - idleMs;
      for (const connections of this.#pooled.values()) {
        for (const [principal, { busyCount, usedAtMs }] of connections) {
          if (busyCount === 0 && usedAtMs <= before) this.#end(connections, principal);
        }
      }
    }
  }
}

function refused(detail: string): NotAnswered {
  return new NotAnswered("tool_upstream_failed", { sent: false, detail });
}

function denied(code: ErrorCode, reason: string): Extract<Verdict<never>, { readonly kind: "deny" }> {
  return { kind: "deny", code, reason };
}
