/**
 * Which tools there are. A tool is pinned as it was first listed, and from then on it is that or it is blocked: whatever
 * differs (another description, another schema, a tool that is gone) has drifted until somebody approves it. A listing
 * is looked at again before a call when it is no longer fresh, so that what runs is what was pinned.
 */
import {
  asPlatformError,
  PlatformError,
  type EffectClass,
  type Snapshot,
  type SnapshotTool,
} from "@signalbox/contract";
import type { Clock, Digest, Log, PinnedTool, Randomness, ToolStore, Verdict } from "@signalbox/core";
import { HttpClient } from "../gates/http-client.ts";
import { isObject, type Json } from "./mcp-protocol.ts";
import { argumentSentence, ArgumentSchemas } from "./argument-schema.ts";
import { readListedTool, wireName, type ListedTool } from "./tool-definition.ts";
import type { UpstreamAuth } from "./upstream-auth.ts";
import { ToolServer, type ToolServerConfig } from "./tool-server.ts";

export interface ToolCatalogOptions {
  readonly servers: Readonly<Record<string, ToolServerConfig>>;
  readonly store: ToolStore;
  readonly tenantId: string;
  readonly clock: Clock;
  readonly digest: Digest;
  readonly randomness: Randomness;
  readonly log: Log;
  /** The platform's tokens for servers, where others reach the same servers too. */
  readonly auth?: (server: string) => UpstreamAuth | null;
  /** Told when what a server lists is not what it listed before. Must not throw. */
  readonly onToolsChanged?: () => void;
  /** How old a listing may be when a call is judged by it. */
  readonly listingMaxAgeMs?: number;
}

export interface CatalogTool {
  /** `server__tool`, as agents name it and models see it. */
  readonly name: string;
  readonly server: string;
  readonly tool: string;
  readonly title: string;
  readonly description: string;
  readonly inputSchema: Json;
  readonly effect: EffectClass;
  /** Of the pin. */
  readonly definitionHash: string;
  /** `ready`: listed as it was pinned. `drifted`: listed otherwise, or no longer. `unseen`: its server was not reached yet. */
  readonly state: "ready" | "drifted" | "unseen";
}

interface Listing {
  /** By name; `null` until the server was reached once. */
  tools: ReadonlyMap<string, ListedTool> | null;
  listedAtMs: number;
  /** False as soon as the server or its connection changed. */
  fresh: boolean;
  refreshing: Promise<void> | null;
}

const LISTING_MAX_AGE_MS = 30_000;
const UNCLASSIFIED: EffectClass = "irreversible";

export class ToolCatalog implements AsyncDisposable {
  readonly #options: ToolCatalogOptions;
  readonly #maxAgeMs: number;
  readonly #http = new HttpClient();
  readonly #servers = new Map<string, ToolServer>();
  readonly #listings = new Map<string, Listing>();
  readonly #pins = new Map<string, PinnedTool>();
  readonly #schemas = new ArgumentSchemas();

  constructor(options: ToolCatalogOptions) {
    this.#options = options;
    this.#maxAgeMs = options.listingMaxAgeMs ?? LISTING_MAX_AGE_MS;
    const { clock, randomness, log } = options;
    for (const [name, config] of Object.entries(options.servers)) {
      const listing: Listing = { tools: null, listedAtMs: 0, fresh: false, refreshing: null };
      const onChanged = (): void => {
        listing.fresh = false;
      };
      this.#listings.set(name, listing);
      const ports = { clock, randomness, log, http: this.#http, onChanged };
      this.#servers.set(name, new ToolServer(name, config, { ...ports, auth: options.auth?.(name) ?? null }));
    }
  }

  /**
   * Reads the pins and lists every server. A server that cannot be reached keeps nobody from starting; its tools are
   * `unseen` and their calls refused until it is there. Rejects when the pins cannot be read.
   */
  async start(): Promise<void> {
    for (const pin of await this.#options.store.list(this.#options.tenantId)) this.#pins.set(keyOf(pin), pin);
    await Promise.all([...this.#servers.keys()].map((server) => this.refresh(server).catch(() => undefined)));
  }

  /** All pinned tools of configured servers, sorted by name. */
  tools(): readonly CatalogTool[] {
    const tools: CatalogTool[] = [];
    for (const pin of this.#pins.values()) {
      const name = wireName(pin.server, pin.tool);
      if (name !== null && this.#servers.has(pin.server)) tools.push(this.#shown(name, pin));
    }
    return tools.sort((left, right) => (left.name < right.name ? -1 : 1));
  }

  /** The pinned definition of a tool, as its server wrote it. */
  definition(tool: { readonly server: string; readonly tool: string }): Json {
    return this.#pins.get(keyOf(tool))?.definition ?? {};
  }

  /** A server may list something else by now: it is looked at before the next call. */
  distrust(server: string): void {
    const listing = this.#listings.get(server);
    if (listing !== undefined) listing.fresh = false;
  }

  /** Lists a server again when what is known of it is older than that. Rejects like `refresh`. */
  async freshen(server: string, maxAgeMs: number): Promise<void> {
    const listing = this.#listings.get(server);
    const { clock } = this.#options;
    const fresh = listing?.fresh === true && clock.monotonicMs() - listing.listedAtMs <= maxAgeMs;
    if (!fresh) await this.refresh(server);
  }

  /** One pinned tool of a configured server, or `null`. */
  find(server: string, tool: string): CatalogTool | null {
    const pin = this.#pins.get(keyOf({ server, tool }));
    const name = wireName(server, tool);
    return pin === undefined || name === null || !this.#servers.has(server) ? null : this.#shown(name, pin);
  }

  server(name: string): ToolServer | null {
    return this.#servers.get(name) ?? null;
  }

  timeoutMs(server: string, tool: string): number | null {
    return this.#servers.get(server)?.config.tools[tool]?.timeoutMs ?? null;
  }

  /** Whether a snapshot's tool is known to have drifted, by what was seen last. Never waits. */
  hasDrifted(tool: SnapshotTool): boolean {
    const listed = this.#listings.get(tool.server)?.tools;
    return listed !== null && listed !== undefined && this.#drift(tool, listed) !== null;
  }

  /** Names of the tools that are not to be offered, because a call of them would be refused. Never waits. */
  withheld(snapshot: Snapshot): ReadonlySet<string> {
    return new Set(snapshot.tools.filter((tool) => this.hasDrifted(tool)).map((tool) => tool.name));
  }

  /** Whether a snapshot's tool is still what was pinned, by a listing that is fresh, and takes these arguments. */
  async judge(tool: SnapshotTool, input: unknown): Promise<Verdict<ToolServer>> {
    const server = this.#servers.get(tool.server);
    const listing = this.#listings.get(tool.server);
    if (server === undefined || listing === undefined) {
      return deny("tool_not_allowed", "The server of this tool is not configured any more.");
    }
    const { clock } = this.#options;
    if (!listing.fresh || clock.monotonicMs() - listing.listedAtMs > this.#maxAgeMs) {
      try {
        await this.refresh(tool.server);
      } catch (thrown) {
        return deny(asPlatformError(thrown).code, "The tool server cannot be reached, so the tool cannot be checked.");
      }
    }
    const drift = this.#drift(tool, listing.tools ?? new Map());
    if (drift !== null) return deny("tool_drifted", drift);
    const problems = this.#schemas.check({ definitionHash: tool.definitionHash, schema: tool.inputSchema }, input);
    if (problems.length > 0) return deny("tool_arguments_invalid", argumentSentence(problems));
    return { kind: "allow", value: server };
  }

  /** Whether a tool that the caller carries out takes these arguments. Its definition is the agent's own. */
  judgeArguments(tool: SnapshotTool, input: unknown): Verdict<null> {
    const problems = this.#schemas.check({ definitionHash: tool.definitionHash, schema: tool.inputSchema }, input);
    return problems.length > 0
      ? deny("tool_arguments_invalid", argumentSentence(problems))
      : { kind: "allow", value: null };
  }

  /** Lists a server now and pins what is new. Rejects with `tool_upstream_failed` when it cannot be reached. */
  async refresh(server: string): Promise<void> {
    const listing = this.#listings.get(server);
    if (listing === undefined) throw new PlatformError("tool_unknown", "There is no tool server of this name.");
    listing.refreshing ??= this.#refresh(server, listing).finally(() => {
      listing.refreshing = null;
    });
    await listing.refreshing;
  }

  /**
   * Pins a tool as it is listed now, after somebody has looked at it. Rejects with `tool_drifted` when it is no longer
   * what was looked at, with `tool_unknown` when it is not listed.
   */
  async approve(seen: {
    readonly server: string;
    readonly tool: string;
    readonly definitionHash: string;
  }): Promise<void> {
    await this.refresh(seen.server);
    const listed = this.#listings.get(seen.server)?.tools?.get(seen.tool);
    if (listed === undefined) throw new PlatformError("tool_unknown");
    if (listed.definitionHash !== seen.definitionHash) throw new PlatformError("tool_drifted");
    await this.#pin([this.#pinOf(seen.server, listed)]);
  }

  /**
   * Pins what a server lists now, whatever was pinned before: for the program's own functions, which come with the code
   * that was deployed. Rejects like `refresh`.
   */
  async follow(server: string): Promise<void> {
    await this.refresh(server);
    const listed = [...(this.#listings.get(server)?.tools?.values() ?? [])];
    const changed = listed.filter((tool) => {
      const pin = this.#pins.get(keyOf({ server, tool: tool.tool }));
      return pin !== undefined && pin.definitionHash !== tool.definitionHash;
    });
    for (const { tool } of changed) this.#options.log.info("a function changed and is pinned anew", { server, tool });
    await this.#pin(changed.map((tool) => this.#pinOf(server, tool)));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#servers.values()].map((server) => server[Symbol.asyncDispose]()));
    this.#http[Symbol.dispose]();
  }

  async #refresh(name: string, listing: Listing): Promise<void> {
    const { clock, log } = this.#options;
    const server = this.#servers.get(name);
    if (server === undefined) throw new PlatformError("tool_unknown");
    const startedAtMs = clock.monotonicMs();
    let entries: readonly Json[];
    try {
      // Connecting marks the listing as not fresh; what is listed after that is.
      await server.connect();
      listing.fresh = true;
      entries = await server.list();
    } catch (cause) {
      listing.fresh = false;
      log.warn("a tool server cannot be listed", { server: name });
      throw new PlatformError("tool_upstream_failed", undefined, { cause });
    }
    const listed = this.#read(name, entries);
    await this.#pin(this.#newPins(name, listed));
    const before = listing.tools;
    listing.tools = listed;
    listing.listedAtMs = startedAtMs;
    if (before !== null && !isSameList(before, listed)) this.#options.onToolsChanged?.();
  }

  #read(server: string, entries: readonly Json[]): ReadonlyMap<string, ListedTool> {
    const { digest, log } = this.#options;
    const listed = new Map<string, ListedTool>();
    const twice = new Set<string>();
    for (const entry of entries.filter(isObject)) {
      const tool = readListedTool(entry, digest);
      const problem =
        tool === null
          ? "its definition cannot be used"
          : wireName(server, tool.tool) === null
            ? "its name has characters or a length that models do not take"
            : listed.has(tool.tool)
              ? "it is listed twice"
              : null;
      if (tool === null || problem !== null) {
        log.warn("a tool is left out", { server, tool: String(entry.name).slice(0, 100), problem });
        if (tool !== null) twice.add(tool.tool);
      } else {
        listed.set(tool.tool, tool);
      }
    }
    // Of two tools under one name nobody can say which a call would reach.
    for (const name of twice) listed.delete(name);
    return listed;
  }

  /** Tools never seen before are pinned as they are; known ones only follow the operator's effect class. */
  #newPins(server: string, listed: ReadonlyMap<string, ListedTool>): readonly PinnedTool[] {
    return [...listed.values()].flatMap((tool) => {
      const pin = this.#pins.get(keyOf({ server, tool: tool.tool }));
      const effect = this.#effectOf(server, tool.tool);
      if (pin === undefined) return [this.#pinOf(server, tool)];
      const before = this.#listings.get(server)?.tools?.get(tool.tool)?.definitionHash;
      if (pin.definitionHash !== tool.definitionHash && before !== tool.definitionHash) {
        this.#options.log.warn("a tool has drifted and is blocked", { server, tool: tool.tool });
      }
      return pin.effect === effect ? [] : [{ ...pin, effect }];
    });
  }

  async #pin(pins: readonly PinnedTool[]): Promise<void> {
    if (pins.length === 0) return;
    await this.#options.store.save(this.#options.tenantId, pins);
    for (const pin of pins) this.#pins.set(keyOf(pin), pin);
  }

  #pinOf(server: string, listed: ListedTool): PinnedTool {
    const { tool, title, definition, definitionHash } = listed;
    return { server, tool, title, definition, definitionHash, effect: this.#effectOf(server, tool) };
  }

  #effectOf(server: string, tool: string): EffectClass {
    return this.#servers.get(server)?.config.tools[tool]?.effect ?? UNCLASSIFIED;
  }

  /** What keeps a snapshot's tool from being called, in words, or `null`. */
  #drift(tool: SnapshotTool, listed: ReadonlyMap<string, ListedTool>): string | null {
    const pin = this.#pins.get(keyOf(tool));
    const now = listed.get(tool.tool);
    if (pin === undefined || pin.definitionHash !== tool.definitionHash) {
      return "The tool is pinned in another form than this agent was given.";
    }
    if (now === undefined) return "The tool server does not offer this tool any more.";
    return now.definitionHash === pin.definitionHash ? null : "The tool changed since it was pinned.";
  }

  #shown(name: string, pin: PinnedTool): CatalogTool {
    const { server, tool, title, effect, definition, definitionHash } = pin;
    const listed = this.#listings.get(server)?.tools ?? null;
    const { description, inputSchema } = definition;
    return {
      name,
      server,
      tool,
      title,
      effect,
      definitionHash,
      description: typeof description === "string" ? description : "",
      inputSchema: isObject(inputSchema) ? inputSchema : {},
      state: listed === null ? "unseen" : listed.get(tool)?.definitionHash === definitionHash ? "ready" : "drifted",
    };
  }
}

function isSameList(before: ReadonlyMap<string, ListedTool>, now: ReadonlyMap<string, ListedTool>): boolean {
  const same = (tool: ListedTool): boolean => before.get(tool.tool)?.definitionHash === tool.definitionHash;
  return before.size === now.size && [...now.values()].every(same);
}

function keyOf(tool: { readonly server: string; readonly tool: string }): string {
  return `${tool.server}\n${tool.tool}`;
}

function deny(code: PlatformError["code"], reason: string): Verdict<never> {
  return { kind: "deny", code, reason };
}
