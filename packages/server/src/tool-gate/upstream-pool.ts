/**
 * Connections to tool servers, one for each principal that may keep a state there: what one of them sets is seen by no
 * other. Bounded for each server, ended when nobody used them for a while.
 */
import type { Clock, Log, Randomness } from "@signalbox/core";
import type { HttpClient } from "../gates/http-client.ts";
import { NotAnswered } from "./rpc-wire.ts";
import { authOf, ToolServer, type ToolServerConfig } from "./tool-server.ts";
import type { UpstreamAuth } from "./upstream-auth.ts";

export interface UpstreamPoolOptions {
  readonly servers: Readonly<Record<string, ToolServerConfig>>;
  readonly clock: Clock;
  readonly randomness: Randomness;
  readonly log: Log;
  readonly http: HttpClient;
  readonly limits?: Partial<UpstreamLimits>;
}

export interface UpstreamLimits {
  /** Of one server. A process each, where the server is one. */
  readonly connectionCount: number;
  readonly idleMs: number;
}

const LIMITS: UpstreamLimits = { connectionCount: 16, idleMs: 300_000 };

interface Pooled {
  readonly server: ToolServer;
  busyCount: number;
  usedAtMs: number;
}

export class UpstreamPool implements AsyncDisposable {
  readonly #options: UpstreamPoolOptions;
  readonly #limits: UpstreamLimits;
  readonly #auth = new Map<string, UpstreamAuth | null>();
  readonly #pooled = new Map<string, Map<string, Pooled>>();
  readonly #ending = new Set<Promise<void>>();
  readonly #stop = new AbortController();
  #sweeping: Promise<void> | null = null;

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

  /** How many connections there are to a server now. */
  count(server: string): number {
    return this.#pooled.get(server)?.size ?? 0;
  }

  /** Uses the principal's own connection. Rejects with `NotAnswered` when there are too many, or as `use` does. */
  async with<T>(
    { server, principal }: { readonly server: string; readonly principal: string },
    use: (connection: ToolServer) => Promise<T>,
  ): Promise<T> {
    const pooled = this.#of(server, principal);
    pooled.busyCount += 1;
    try {
      return await use(pooled.server);
    } finally {
      pooled.busyCount -= 1;
      pooled.usedAtMs = this.#options.clock.monotonicMs();
    }
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
    const ports = { clock, randomness, log, http, auth: this.auth(name), onChanged: () => undefined };
    const pooled = { server: new ToolServer(name, config, ports), busyCount: 0, usedAtMs: clock.monotonicMs() };
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
