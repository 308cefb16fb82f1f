/**
 * MCP for clients that are no engines of ours: each server at `/mcp/servers/{server}` under its own names, and all of them
 * at `/mcp/units/{unit}` under prefixed ones. Whoever asks has an API key with the right to use tools; any process with
 * gates serves any request.
 */
import { isUtf8 } from "node:buffer";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { asPlatformError, PlatformError } from "@signalbox/contract";
import type { Clock, Digest, GatewayRecord, Log, Randomness } from "@signalbox/core";
import type { ClientJudge } from "../../gates/client-judge.ts";
import type { Gate } from "../../gates/gate-server.ts";
import { HttpClient } from "../../gates/http-client.ts";
import { readBody } from "../../gates/message-body.ts";
import { Settling } from "../../gates/settling.ts";
import { ListenStreams } from "../listen-streams.ts";
import { McpReply } from "../mcp-reply.ts";
import { McpProblem, readClientMessage } from "../mcp-request.ts";
import { NotAnswered } from "../rpc-wire.ts";
import { wellFormedBody } from "../strict-json.ts";
import type { ToolCatalog } from "../tool-catalog.ts";
import type { UpstreamPool } from "../upstream-pool.ts";
import { ClientCancels } from "./client-cancels.ts";
import type { Exchange } from "./exchange.ts";
import { Front } from "./front.ts";
import { principalOf, type GatewayCaller } from "./gateway-caller.ts";
import { GatewayCalls } from "./gateway-calls.ts";
import { refusedHost, type AllowedHosts } from "./host-rule.ts";
import { HttpRelay, OtherEra } from "./http-relay.ts";
import { plainNaming, PREFIXED } from "./naming.ts";
import { RelayUpstream } from "./relay-upstream.ts";
import { CarriedStates } from "./carried-state.ts";
import { scrubberOf } from "./scrubber.ts";
import { SealedSessions } from "./sealed-sessions.ts";
import { keepTidy } from "./tidying.ts";

export interface GatewayOptions {
  readonly catalog: ToolCatalog;
  readonly pool: UpstreamPool;
  readonly servers: readonly string[];
  readonly record: GatewayRecord;
  /** Judges calls by the policy that is in place. */
  readonly judge: ClientJudge;
  /** Who asks. Rejects with `unauthenticated`, `invalid_actor` or `permission_denied`. */
  readonly identify: (headers: IncomingHttpHeaders) => Promise<GatewayCaller>;
  /** Incarnation of this process. Throws while the process is not sure of it. */
  readonly process: () => number;
  /** Shared by all processes of the platform. */
  readonly secret: string;
  readonly hosts: AllowedHosts;
  /** How long the ledger keeps calls that have ended. */
  readonly retentionMs: number;
  readonly clock: Clock;
  readonly digest: Digest;
  readonly randomness: Randomness;
  readonly log: Log;
  readonly limits?: Partial<GatewayLimits>;
}

export interface GatewayLimits {
  readonly requestBytesMax: number;
  /** For tools that the operator gave no time of their own. */
  readonly callMs: number;
  /** For everything else that is asked of a server. */
  readonly requestMs: number;
  readonly quietMs: number;
  readonly listMs: number;
}

export interface Gateway extends Gate, AsyncDisposable {
  /** Lists of tools have changed: whoever wanted to hear of it does. */
  toolsChanged(): void;
}

const LIMITS: GatewayLimits = {
  requestBytesMax: 4 * 1024 * 1024,
  callMs: 60_000,
  requestMs: 60_000,
  quietMs: 10_000,
  listMs: 700,
};
const ADDRESS = /^\/mcp\/(servers|units)\/([A-Za-z0-9][A-Za-z0-9_-]{0,63})$/;
/** The one unit there is until a tenant has an organisation. */
const UNIT = "default";
const CHALLENGE = 'Bearer realm="signalbox"';
const SESSION_WANTED = "This server wants a session: begin with initialize.";
const SESSION_HEADER = "mcp-session-id";

export function createGateway(options: GatewayOptions): Gateway {
  return new HttpGateway(options);
}

class HttpGateway implements Gateway {
  readonly #options: GatewayOptions;
  readonly #limits: GatewayLimits;
  readonly #http = new HttpClient();
  readonly #listening: ListenStreams;
  readonly #settling: Settling;
  readonly #relays = new Map<string, HttpRelay>();
  readonly #fronts = new Map<string, Front>();
  readonly #serving = new Set<Promise<void>>();
  readonly #stop = new AbortController();
  readonly #tidying: Promise<void>;

  constructor(options: GatewayOptions) {
    this.#options = options;
    this.#limits = { ...LIMITS, ...options.limits };
    this.#listening = new ListenStreams(options.clock);
    this.#settling = new Settling(options);
    this.#build();
    this.#tidying = keepTidy({ ...options, stopping: this.#stop.signal });
  }

  handle(request: IncomingMessage, response: ServerResponse): void {
    const served = this.#serve(request, response)
      .catch((thrown: unknown) => this.#fail(new McpReply(response, null), thrown))
      .finally(() => this.#serving.delete(served));
    this.#serving.add(served);
  }

  toolsChanged(): void {
    this.#listening.announce("toolsListChanged");
    for (const relay of this.#relays.values()) relay.toolsChanged();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort("stopping");
    await this.#listening[Symbol.asyncDispose]();
    await Promise.all([this.#settling[Symbol.asyncDispose](), ...this.#serving, this.#tidying]);
    this.#http[Symbol.dispose]();
  }

  #build(): void {
    const { catalog, pool, servers, judge, log, clock, digest, randomness } = this.#options;
    const states = new CarriedStates(this.#options.secret, randomness);
    const calls = new GatewayCalls({
      ...this.#options,
      states,
      settling: this.#settling,
      callMs: this.#limits.callMs,
    });
    const sessions = new SealedSessions(this.#options.secret, randomness);
    const scrub = scrubberOf(pool);
    const shared = { catalog, pool, calls, judge, log, clock, ...this.#limits, stopping: this.#stop.signal };
    const front = { ...shared, listening: this.#listening, cancels: new ClientCancels(), scrub };
    const offered = servers.filter((server) => pool.config(server)?.clients !== "none").sort();
    this.#fronts.set(`units/${UNIT}`, new Front({ ...front, servers: offered, naming: PREFIXED, single: null }));
    for (const server of offered) {
      const naming = plainNaming(server);
      this.#fronts.set(`servers/${server}`, new Front({ ...front, servers: [server], naming, single: server }));
      const config = pool.config(server);
      if (config?.transport !== "http") continue;
      const { headers } = config;
      const auth = pool.auth(server);
      const upstream = new RelayUpstream({ url: new URL(config.url), headers, auth, http: this.#http, clock });
      const relay = { ...shared, server, upstream, sessions, digest, scrub: (text: string) => scrub(server, text) };
      this.#relays.set(`servers/${server}`, new HttpRelay(relay));
    }
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const refusedBecause = refusedHost(request.headers, this.#options.hosts);
    if (refusedBecause !== null) {
      response.setHeader("connection", "close");
      throw new PlatformError("permission_denied", refusedBecause);
    }
    const [, kind, name] = ADDRESS.exec((request.url ?? "").split("?")[0] ?? "") ?? [];
    if (kind === undefined || name === undefined) throw new PlatformError("not_found");
    const caller = await this.#identify(request, response);
    const endpoint = `${kind}/${name}`;
    const front = this.#fronts.get(endpoint);
    if (front === undefined) throw new PlatformError("not_found", "There are no tools at this address.");
    const exchange = { request, response, caller, principal: principalOf(caller), endpoint, text: "" };
    const relay = this.#relays.get(endpoint);
    if (request.method === "POST") await this.#post({ ...exchange, text: await this.#text(request) }, { front, relay });
    else if (request.method === "GET" && relay !== undefined && hasSession(request)) await relay.listen(exchange);
    else if (request.method === "DELETE" && relay !== undefined && hasSession(request)) await relay.leave(exchange);
    else {
      response.setHeader("allow", "POST");
      throw new PlatformError("method_not_allowed");
    }
  }

  async #post(given: Exchange, ways: { readonly front: Front; readonly relay: HttpRelay | undefined }): Promise<void> {
    const message = readClientMessage(given.text, given.request.headers);
    const exchange = { ...given, text: wellFormedBody(given.text) };
    const id = "id" in message ? message.id : null;
    try {
      if (ways.relay === undefined) await ways.front.post(exchange, message);
      else if ("modern" in message && message.modern) {
        const facts = await this.#options.catalog.server(serverOf(exchange))?.facts();
        if (facts?.modern === true) await ways.relay.post(exchange, message);
        else await ways.front.post(exchange, message);
      } else {
        await this.#relayOlder(exchange, { ...ways, relay: ways.relay, message });
      }
    } catch (thrown) {
      this.#fail(new McpReply(exchange.response, id), thrown);
    }
  }

  async #relayOlder(
    exchange: Exchange,
    ways: { readonly front: Front; readonly relay: HttpRelay; readonly message: ReturnType<typeof readClientMessage> },
  ): Promise<void> {
    try {
      await ways.relay.post(exchange, ways.message);
    } catch (thrown) {
      if (!(thrown instanceof OtherEra)) throw thrown;
      const facts = await this.#options.catalog.server(serverOf(exchange))?.facts();
      // A server of this era wants the session that it would have given.
      if (facts?.modern !== true) throw new McpProblem(SESSION_WANTED, { status: 400, rpcCode: -32_000 });
      await ways.front.post(exchange, ways.message);
    }
  }

  async #identify(request: IncomingMessage, response: ServerResponse): Promise<GatewayCaller> {
    try {
      return await this.#options.identify(request.headers);
    } catch (thrown) {
      const { status } = asPlatformError(thrown).facts;
      if (status === 401) response.setHeader("www-authenticate", CHALLENGE);
      throw thrown;
    }
  }

  async #text(request: IncomingMessage): Promise<string> {
    if (!/^application\/json\s*(;|$)/i.test(request.headers["content-type"] ?? "")) {
      throw new PlatformError("unsupported_media_type");
    }
    const bytes = await readBody(request, this.#limits.requestBytesMax);
    if (!isUtf8(bytes)) throw new PlatformError("invalid_encoding");
    return bytes.toString("utf8");
  }

  #fail(reply: McpReply, thrown: unknown): void {
    if (thrown instanceof McpProblem) {
      const { status, rpcCode, message, data, id } = thrown;
      reply.about(id).error({ status, rpcCode, message, code: null, data });
      return;
    }
    const error =
      thrown instanceof NotAnswered ? new PlatformError(thrown.code, thrown.message) : asPlatformError(thrown);
    if (error.code === "internal" || error.code === "database_unavailable") {
      this.#options.log.error("a request failed inside the gateway", thrown);
    }
    const { status } = error.facts;
    reply.error({ status, rpcCode: status, message: error.detail, code: error.code });
  }
}

function hasSession(request: IncomingMessage): boolean {
  return request.headers[SESSION_HEADER] !== undefined;
}

function serverOf({ endpoint }: Exchange): string {
  return endpoint.slice("servers/".length);
}
