/** What the servers behind a front offer, put together; and questions to the one server that a name or URI stands for. */
import { asPlatformError } from "@signalbox/contract";
import { isObject, META_CAPABILITIES, META_VERSION, RPC, type Json } from "../mcp-protocol.ts";
import { McpProblem, type McpRequest } from "../mcp-request.ts";
import type { ServerFacts } from "../mcp-session.ts";
import { NotAnswered } from "../rpc-wire.ts";
import type { Exchange } from "./exchange.ts";
import type { FrontPorts } from "./front.ts";
import { renameUris, type Named } from "./naming.ts";
import { offeredTo } from "./offered.ts";

export interface Asked {
  readonly principal: string;
  readonly message: McpRequest;
  readonly signal: AbortSignal;
}

interface Degraded {
  readonly server: string;
  readonly code: string;
  readonly reason: string;
}

const DEGRADED = "signalbox/degraded";
const PAGES_MAX = 50;
/** How long a server is taken to list what it listed before, and to be there. */
const FRESH_MS = 1_000;
const CACHED = { ttlMs: 0, cacheScope: "private" };
/** Members of `_meta` that speak of the client's own connection. */
const OWN_META: ReadonlySet<string> = new Set([META_VERSION, "io.modelcontextprotocol/clientInfo", "progressToken"]);

export class FrontLists {
  readonly #ports: FrontPorts;

  constructor(ports: FrontPorts) {
    this.#ports = ports;
  }

  async tools(exchange: Exchange): Promise<Json> {
    const { catalog, servers, naming, single } = this.#ports;
    const isOffered = await offeredTo(this.#ports, exchange);
    const { values, degraded } = await this.#fromEach((server) =>
      catalog.freshen(server, FRESH_MS).then(() => [server]),
    );
    const reached = new Set(values.map(({ value }) => value));
    const tools = catalog
      .tools()
      .filter((tool) => servers.includes(tool.server) && reached.has(tool.server) && isOffered(tool))
      .map((tool) => {
        const name = single === null ? tool.name : naming.name({ server: tool.server, name: tool.tool });
        const definition = catalog.definition(tool);
        return { ...definition, name, title: tool.title };
      });
    return { tools, ...CACHED, ...metaOf(degraded) };
  }

  async prompts(asked: Asked): Promise<Json> {
    const { naming } = this.#ports;
    const { values, degraded } = await this.#listed(asked, {
      capability: "prompts",
      method: "prompts/list",
      member: "prompts",
    });
    const prompts = values.map(({ server, value }) => ({
      ...value,
      name: naming.name({ server, name: String(value.name) }),
    }));
    return { prompts: this.#unique(prompts, "name"), ...CACHED, ...metaOf(degraded) };
  }

  async resources(asked: Asked): Promise<Json> {
    const { naming } = this.#ports;
    const what = { capability: "resources", method: "resources/list", member: "resources" };
    const { values, degraded } = await this.#listed(asked, what);
    const resources = values.map(({ server, value }) => ({
      ...value,
      uri: naming.uri({ server, name: String(value.uri) }),
    }));
    return { resources: this.#unique(resources, "uri"), ...CACHED, ...metaOf(degraded) };
  }

  async templates(asked: Asked): Promise<Json> {
    const { naming } = this.#ports;
    const what = { capability: "resources", method: "resources/templates/list", member: "resourceTemplates" };
    const { values, degraded } = await this.#listed(asked, what);
    const resourceTemplates = values.map(({ server, value }) => ({
      ...value,
      uriTemplate: naming.uri({ server, name: String(value.uriTemplate) }),
    }));
    return { resourceTemplates: this.#unique(resourceTemplates, "uriTemplate"), ...CACHED, ...metaOf(degraded) };
  }

  /** A question to the server of the prompt or resource that it names. */
  async ask({ principal, message, signal }: Asked): Promise<Json> {
    const { pool, requestMs, naming } = this.#ports;
    const { named, params } = this.#addressed(message);
    const { server } = named;
    const { _meta: _, ...rest } = params;
    const answer = await pool.with({ server, principal }, (connection) =>
      connection.ask({
        method: message.method,
        params: rest,
        meta: passedMeta(message),
        name: message.method === "completion/complete" ? null : named.name,
        timeoutMs: requestMs,
        signal,
      }),
    );
    if (answer.kind === "error") {
      const text = this.#ports.scrub(server, answer.message);
      throw new McpProblem(text, {
        status: 200,
        rpcCode: answer.code,
        id: message.id,
        ...(isObject(answer.data) && this.#ports.single !== null ? { data: answer.data } : {}),
      });
    }
    return renameUris(naming, server, answer.result);
  }

  #addressed({ method, params }: McpRequest): { readonly named: Named; readonly params: Json } {
    const { naming } = this.#ports;
    if (method === "prompts/get") {
      const named = this.#known(naming.parseName(params.name), "There is no such prompt.");
      return { named, params: { ...params, name: named.name } };
    }
    if (method === "resources/read") {
      const named = this.#known(naming.parseUri(params.uri), "There is no such resource.");
      return { named, params: { ...params, uri: named.name } };
    }
    const ref = isObject(params.ref) ? params.ref : {};
    const member = ref.type === "ref/prompt" ? "name" : "uri";
    const parsed = member === "name" ? naming.parseName(ref.name) : naming.parseUri(ref.uri);
    const named = this.#known(parsed, "There is nothing of that name to complete.");
    return { named, params: { ...params, ref: { ...ref, [member]: named.name } } };
  }

  #known(named: Named | null, message: string): Named {
    if (named !== null && this.#ports.servers.includes(named.server)) return named;
    throw new McpProblem(message, { status: 200, rpcCode: RPC.invalidParams });
  }

  async #listed(
    { principal, message, signal }: Asked,
    what: { readonly capability: string; readonly method: string; readonly member: string },
  ): Promise<{ readonly values: readonly { server: string; value: Json }[]; readonly degraded: readonly Degraded[] }> {
    const { pool, listMs } = this.#ports;
    return this.#fromEach((server) =>
      pool.with({ server, principal }, async (connection) => {
        const facts: ServerFacts = await connection.facts();
        if (!isObject(facts.capabilities[what.capability])) return [];
        const listed: Json[] = [];
        let cursor: unknown;
        for (let page = 0; page < PAGES_MAX; page += 1) {
          const answer = await connection.ask({
            method: what.method,
            params: cursor === undefined ? {} : { cursor },
            meta: passedMeta(message),
            name: null,
            timeoutMs: listMs,
            signal,
          });
          if (answer.kind === "error") throw unlisted();
          const entries = answer.result[what.member];
          if (Array.isArray(entries)) listed.push(...entries.filter(isObject));
          cursor = answer.result.nextCursor;
          if (typeof cursor !== "string") break;
        }
        return listed;
      }),
    );
  }

  /** Asks every server at once; who has not answered in time is degraded, and the others are listed without it. */
  async #fromEach<T>(ask: (server: string) => Promise<readonly T[]>): Promise<{
    readonly values: readonly { readonly server: string; readonly value: T }[];
    readonly degraded: readonly Degraded[];
  }> {
    const { servers, clock, listMs } = this.#ports;
    const late = new AbortController();
    const deadline = clock.sleep(listMs, late.signal).then((how) => {
      if (how === "aborted") return [];
      throw new NotAnswered("tool_timeout", { sent: false, detail: "The tool server did not answer in time." });
    });
    deadline.catch(() => undefined);
    const degraded: Degraded[] = [];
    const lists = await Promise.all(
      servers.map(async (server) => {
        try {
          const values = await Promise.race([ask(server), deadline]);
          return values.map((value) => ({ server, value }));
        } catch (thrown) {
          const { code, detail } =
            thrown instanceof NotAnswered ? { code: thrown.code, detail: thrown.message } : asPlatformError(thrown);
          degraded.push({ server, code, reason: this.#ports.scrub(server, detail) });
          return [];
        }
      }),
    );
    late.abort("listed");
    return { values: lists.flat(), degraded };
  }

  /** Of two things under one name nobody could say which is meant: neither is listed. */
  #unique<T extends Json>(entries: readonly T[], member: string): readonly T[] {
    const counts = new Map<unknown, number>();
    for (const entry of entries) counts.set(entry[member], (counts.get(entry[member]) ?? 0) + 1);
    const unique = entries.filter((entry) => counts.get(entry[member]) === 1);
    if (unique.length < entries.length) this.#ports.log.warn("names are taken twice and not listed", { member });
    return unique;
  }
}

function unlisted(): NotAnswered {
  return new NotAnswered("tool_upstream_failed", { sent: false, detail: "The tool server does not list what it has." });
}

function metaOf(degraded: readonly Degraded[]): Json {
  return degraded.length === 0 ? {} : { _meta: { [DEGRADED]: degraded } };
}

/** What a client says beside its question that its server may read. */
export function passedMeta({ meta, modern }: McpRequest): Json {
  const entries = Object.entries(meta).filter(
    ([name]) => !OWN_META.has(name) && (modern || name !== META_CAPABILITIES),
  );
  return Object.fromEntries(entries);
}
