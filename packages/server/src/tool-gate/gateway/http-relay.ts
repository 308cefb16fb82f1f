/**
 * One tool server over HTTP at an address of its own: what client and server say to each other passes as it is, in the
 * era both speak. Lists are narrowed to what the client may use, calls of tools are judged and recorded, and nothing the
 * client showed to us reaches the server.
 */
import type { Clock, Digest, Log } from "@signalbox/core";
import type { ClientJudge } from "../../gates/client-judge.ts";
import { isObject, META_SUBSCRIPTION, RPC, SUPPORTED_VERSIONS, type Json } from "../mcp-protocol.ts";
import { McpReply } from "../mcp-reply.ts";
import { McpProblem, type McpRequest } from "../mcp-request.ts";
import { NotAnswered } from "../rpc-wire.ts";
import type { ToolCatalog } from "../tool-catalog.ts";
import { parameterHeaders } from "../parameter-headers.ts";
import { readListedTool } from "../tool-definition.ts";
import { goneSignal, type ClientMessage, type Exchange } from "./exchange.ts";
import type { BegunCall, GatewayCalls } from "./gateway-calls.ts";
import { offeredTo, offeredTool } from "./offered.ts";
import { inEra, RelayedCall } from "./relayed-call.ts";
import { isStream, readMessage, relayAnswer } from "./relayed-answer.ts";
import type { RelayedRequest, RelayUpstream } from "./relay-upstream.ts";
import type { RelayedSession, SealedSessions } from "./sealed-sessions.ts";

export interface HttpRelayPorts {
  readonly server: string;
  readonly upstream: RelayUpstream;
  readonly catalog: ToolCatalog;
  readonly calls: GatewayCalls;
  readonly judge: ClientJudge;
  readonly sessions: SealedSessions;
  readonly clock: Clock;
  readonly digest: Digest;
  readonly log: Log;
  readonly scrub: (text: string) => string;
  readonly quietMs: number;
  readonly requestMs: number;
  /** Aborted when this process leaves. */
  readonly stopping: AbortSignal;
}

/** The server does not speak the client's era, and said so. */
export class OtherEra extends Error {}

const PASSED_HEADERS: readonly string[] = [
  "accept",
  "content-type",
  "last-event-id",
  "mcp-method",
  "mcp-name",
  "mcp-protocol-version",
];
const PARAMETER_HEADER = /^mcp-param-[a-z0-9!#$%&'*+.^_`|~-]{1,100}$/;
const DEFAULT_ACCEPT = "application/json, text/event-stream";

/** Requests that change nothing: they may be sent again when it is not known whether they arrived. */
const READS: ReadonlySet<string> = new Set([
  "completion/complete",
  "initialize",
  "ping",
  "prompts/get",
  "prompts/list",
  "resources/list",
  "resources/read",
  "resources/templates/list",
  "server/discover",
  "tools/list",
]);
const PASSED_METHODS: ReadonlySet<string> = new Set([
  ...READS,
  "logging/setLevel",
  "resources/subscribe",
  "resources/unsubscribe",
  "subscriptions/listen",
  "tools/call",
]);
const PASSED_NOTIFICATIONS: ReadonlySet<string> = new Set([
  "notifications/cancelled",
  "notifications/initialized",
  "notifications/progress",
  "notifications/roots/list_changed",
]);
/** Streams that say something now and then, for as long as the client listens. */
const ENDLESS: ReadonlySet<string> = new Set(["subscriptions/listen"]);
const OTHER_ERA_CODES: ReadonlySet<unknown> = new Set([RPC.unsupportedVersion, RPC.headerMismatch]);

export class HttpRelay {
  readonly #ports: HttpRelayPorts;
  /** Streams on which the server speaks by itself, and what tells their clients that tools have changed. */
  readonly #listening = new Map<McpReply, string>();

  constructor(ports: HttpRelayPorts) {
    this.#ports = ports;
  }

  /** Rejects with `OtherEra` where nothing was answered and the server wants to be spoken to otherwise. */
  async post(exchange: Exchange, message: ClientMessage): Promise<void> {
    const session = this.#session(exchange, message);
    if (!("id" in message)) {
      await this.#tell(exchange, { message, session });
      return;
    }
    if (!PASSED_METHODS.has(message.method) || (message.method === "initialize" && message.modern)) {
      throw unknownMethod(message);
    }
    if (message.method === "initialize") await this.#initialize(exchange, message);
    else if (message.method === "tools/call") await this.#call(exchange, { message, session });
    else await this.#pass(exchange, { message, session });
  }

  /** The stream of a session on which the server speaks by itself. */
  async listen(exchange: Exchange): Promise<void> {
    const session = this.#session(exchange, null);
    if (session === null) throw noSession();
    const signal = AbortSignal.any([goneSignal(exchange.response), this.#ports.stopping]);
    const head = await this.#ports.upstream.send({
      ...this.#request(exchange, { session, signal, mayRepeat: true }),
      method: "GET",
      body: null,
    });
    if (!isStream(head)) {
      head.resume();
      exchange.response.writeHead(head.statusCode === 200 ? 502 : (head.statusCode ?? 502)).end();
      return;
    }
    const reply = new McpReply(exchange.response, null);
    reply.frame(": listening\n\n");
    this.#listening.set(reply, toolsChangedFrame({}));
    await relayAnswer(head, { reply, id: null, scrub: this.#ports.scrub }).catch(() => false);
    this.#listening.delete(reply);
    exchange.response.end();
  }

  /** What clients may have of the server's tools is another than it was, whether or not the server lists others. */
  toolsChanged(): void {
    for (const [reply, frame] of this.#listening) reply.frame(frame);
  }

  /** Ends a session of this client. */
  async leave(exchange: Exchange): Promise<void> {
    const session = this.#session(exchange, null);
    if (session === null) throw noSession();
    const signal = AbortSignal.any([AbortSignal.timeout(this.#ports.requestMs), this.#ports.stopping]);
    const asked = this.#request(exchange, { session, signal, mayRepeat: true });
    const head = await this.#ports.upstream.send({ ...asked, method: "DELETE", body: null });
    head.resume();
    exchange.response.writeHead(head.statusCode === 405 ? 405 : 204).end();
  }

  #session({ request, principal }: Exchange, message: ClientMessage | null): RelayedSession | null {
    const id = request.headers["mcp-session-id"];
    const opens = message !== null && "method" in message && message.method === "initialize";
    const modern = message !== null && "modern" in message && message.modern;
    // A client that begins again may still show what it had.
    if (id === undefined || opens || modern) return null;
    const session = this.#ports.sessions.open(String(id), { principal, server: this.#ports.server });
    if (session === null) throw noSession();
    return session;
  }

  /** Notifications, and answers to what the server asked. */
  async #tell(
    exchange: Exchange,
    { message, session }: { readonly message: ClientMessage; readonly session: RelayedSession | null },
  ): Promise<void> {
    if (!("responseTo" in message) && "method" in message && !PASSED_NOTIFICATIONS.has(message.method)) {
      exchange.response.writeHead(202).end();
      return;
    }
    const signal = AbortSignal.any([AbortSignal.timeout(this.#ports.requestMs), this.#ports.stopping]);
    const head = await this.#ports.upstream.send(this.#request(exchange, { session, signal, mayRepeat: false }));
    head.resume();
    const status = head.statusCode ?? 502;
    exchange.response.writeHead(status < 300 ? 202 : status === 404 ? 404 : 400).end();
  }

  async #initialize(exchange: Exchange, message: McpRequest): Promise<void> {
    const { upstream, sessions, server, requestMs, stopping, scrub } = this.#ports;
    const signal = AbortSignal.any([goneSignal(exchange.response), AbortSignal.timeout(requestMs), stopping]);
    const head = await upstream.send(this.#request(exchange, { session: null, signal, mayRepeat: true }));
    const upstreamId = head.headers["mcp-session-id"];
    const reply = new McpReply(exchange.response, message.id);
    const answer = await readMessage(head, message.id);
    const { result, error } = answer;
    if (isObject(error) && OTHER_ERA_CODES.has(error.code)) throw new OtherEra();
    if (typeof upstreamId === "string" && isObject(result)) {
      const version = String(result.protocolVersion);
      const { _meta: _, ...initialize } = message.params;
      const sessionId = sessions.seal({ upstreamId, version, initialize }, { principal: exchange.principal, server });
      exchange.response.setHeader("mcp-session-id", sessionId);
    }
    reply.message(head.statusCode ?? 200, scrub(JSON.stringify(answer)));
  }

  async #pass(exchange: Exchange, { message, session }: Passing): Promise<void> {
    const { upstream, clock, quietMs, requestMs, stopping, scrub } = this.#ports;
    const endless = ENDLESS.has(message.method);
    const bounds = [goneSignal(exchange.response), stopping];
    const signal = AbortSignal.any(endless ? bounds : [...bounds, AbortSignal.timeout(requestMs)]);
    const mayRepeat = READS.has(message.method);
    const reply = new McpReply(exchange.response, message.id);
    const done = new AbortController();
    const alive = reply.keepAlive(clock, quietMs, done.signal);
    try {
      const head = await upstream.send(this.#request(exchange, { session, signal, mayRepeat }));
      if (session === null && !message.modern && head.statusCode === 400) {
        head.resume();
        throw new OtherEra();
      }
      const goesOn = endless && isStream(head) && wantsTools(message);
      if (goesOn) this.#listening.set(reply, toolsChangedFrame({ _meta: { [META_SUBSCRIPTION]: message.id } }));
      const onAnswer = NARROWED[message.method]?.({ ports: this.#ports, exchange, message });
      const relaying = { reply, id: message.id, scrub, goesOn, ...(onAnswer ? { onAnswer } : {}) };
      const answered = await relayAnswer(head, relaying);
      // The server has nothing more to say; what its tools are to this client may change all the same.
      if (goesOn) await aborted(signal);
      if (goesOn || (!answered && onAnswer !== undefined)) exchange.response.end();
    } catch (thrown) {
      if (endless && exchange.response.headersSent) exchange.response.end();
      else throw signal.aborted && !(thrown instanceof NotAnswered) ? inTime(signal) : thrown;
    } finally {
      this.#listening.delete(reply);
      done.abort("answered");
      await alive;
    }
  }

  async #call(exchange: Exchange, { message, session }: Passing): Promise<void> {
    const { catalog, server, calls } = this.#ports;
    const tool = offeredTool(catalog, { server, name: message.params.name });
    const reply = new McpReply(exchange.response, message.id);
    const gone = AbortSignal.any([goneSignal(exchange.response), this.#ports.stopping]);
    const begun = await calls.begin({ exchange, message, reply, tool, pooled: null, gone });
    if (typeof begun === "string") {
      reply.result(inEra(begun, message.modern));
      return;
    }
    const call = new RelayedCall(this.#ports, { exchange, message, reply, begun });
    await call.run((body, signal) => {
      const asked = this.#request(exchange, { session, signal, mayRepeat: begun.mayRepeat });
      const headers = begun.isEdited ? headersOf(asked.headers, begun) : asked.headers;
      return this.#ports.upstream.send({ ...asked, headers, body });
    });
  }

  #request(
    { request, text }: Exchange,
    about: Pick<RelayedRequest, "session" | "signal" | "mayRepeat">,
  ): RelayedRequest {
    const headers: Record<string, string> = {};
    for (const [name, value] of Object.entries(request.headers)) {
      const passes = PASSED_HEADERS.includes(name) || PARAMETER_HEADER.test(name);
      if (passes && typeof value === "string") headers[name] = value;
    }
    headers.accept ??= DEFAULT_ACCEPT;
    return { method: "POST", body: text, headers, ...about };
  }
}

/** Headers that repeat arguments say what is carried out. */
function headersOf(
  given: Readonly<Record<string, string>>,
  { tool, argumentsJson }: BegunCall,
): Record<string, string> {
  const kept = Object.entries(given).filter(([name]) => !PARAMETER_HEADER.test(name));
  return { ...Object.fromEntries(kept), ...parameterHeaders(tool.inputSchema, JSON.parse(argumentsJson)) };
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

function wantsTools({ params }: McpRequest): boolean {
  return isObject(params.notifications) && params.notifications.toolsListChanged === true;
}

function toolsChangedFrame(params: Json): string {
  const told = { jsonrpc: "2.0", method: "notifications/tools/list_changed", params };
  return `event: message\ndata: ${JSON.stringify(told)}\n\n`;
}

interface Passing {
  readonly message: McpRequest;
  readonly session: RelayedSession | null;
}

interface Narrowed {
  readonly ports: HttpRelayPorts;
  readonly exchange: Exchange;
  readonly message: McpRequest;
}

type Narrowing = (narrowed: Narrowed) => (answer: Json) => Promise<string>;

/** Answers that are not passed on as they are. */
const NARROWED: Readonly<Record<string, Narrowing>> = {
  "tools/list":
    ({ ports, exchange, message }) =>
    async (answer) => {
      if (!isObject(answer.result)) return JSON.stringify(answer);
      const isOffered = await offeredTo(ports, exchange);
      const tools = Array.isArray(answer.result.tools) ? answer.result.tools.filter(isObject) : [];
      const offered = tools.filter((entry) => {
        const listed = readListedTool(entry, ports.digest);
        if (typeof listed === "string") return false;
        const pin = ports.catalog.find(ports.server, listed.tool);
        return pin !== null && isOffered(pin) && pin.definitionHash === listed.definitionHash;
      });
      const notKept = message.modern ? { ttlMs: 0, cacheScope: "private" } : {};
      return JSON.stringify({ ...answer, result: { ...answer.result, tools: offered, ...notKept } });
    },
  "server/discover": () => async (answer) => {
    if (!isObject(answer.result)) return JSON.stringify(answer);
    // Clients of the older era are served whether or not the server itself still speaks it.
    return JSON.stringify({
      ...answer,
      result: { ...answer.result, supportedVersions: SUPPORTED_VERSIONS, cacheScope: "private" },
    });
  },
};

function unknownMethod(message: McpRequest): McpProblem {
  const status = message.modern ? 404 : 200;
  return new McpProblem("Method not found", { status, rpcCode: RPC.methodNotFound, id: message.id });
}

function noSession(): McpProblem {
  return new McpProblem("Session not found", { status: 404, rpcCode: -32_001 });
}

function inTime(signal: AbortSignal): NotAnswered {
  const left = signal.reason === "gone";
  return new NotAnswered(left ? "run_cancelled" : "tool_timeout", {
    sent: true,
    detail: left ? "The client went away." : "The tool server did not answer in time.",
  });
}
