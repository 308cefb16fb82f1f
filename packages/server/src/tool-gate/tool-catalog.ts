/**
 * Which tools there are. A tool is pinned in one form, at one address, and from then on it is that or it is blocked:
 * whatever differs has drifted until somebody approves it. A listing is looked at again before a call when it is no
 * longer fresh, and the record when it may have changed, so that what runs is what was pinned and is still trusted.
 */
import {
  asPlatformError,
  PlatformError,
  type EffectClass,
  type Posture,
  type Snapshot,
  type SnapshotTool,
} from "@signalbox/contract";
import {
  isClientTool,
  type Clock,
  type Digest,
  type Log,
  type Randomness,
  type ToolClassification,
  type ToolRecord,
  type ToolStore,
  type Verdict,
} from "@signalbox/core";
import { HttpClient } from "../gates/http-client.ts";
import { argumentSentence, ArgumentSchemas } from "./argument-schema.ts";
import type { UpstreamAuth } from "./upstream-auth.ts";
import { isObject, type Json } from "./mcp-protocol.ts";
import { ListingKeeper } from "./listing-keeper.ts";
import { wireName } from "./tool-definition.ts";
import { ToolRecords } from "./tool-records.ts";
import { ToolServer, type ToolServerConfig } from "./tool-server.ts";

export interface ToolCatalogOptions {
  readonly servers: Readonly<Record<string, ToolServerConfig>>;
  readonly store: ToolStore;
  readonly tenantId: string;
  readonly posture: Posture;
  readonly clock: Clock;
  readonly digest: Digest;
  readonly randomness: Randomness;
  readonly log: Log;
  /** The platform's tokens for servers, where others reach the same servers too. */
  readonly auth?: (server: string) => UpstreamAuth | null;
  /** Told when what a server lists, or what is known of its tools, is not what it was. Must not throw. */
  readonly onToolsChanged?: () => void;
  /** How old a listing may be when a call is judged by it. */
  readonly listingMaxAgeMs?: number;
  /** How old what is known of the record may be then. */
  readonly recordsMaxAgeMs?: number;
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
  /**
   * `ready`: approved, and listed as it was pinned. `quarantined`: nobody has approved it. `drifted`: listed otherwise,
   * or no longer. `unseen`: its server was not reached yet.
   */
  readonly state: "ready" | "quarantined" | "drifted" | "unseen";
}

interface Listing {
  /** Hashes of definitions by name; `null` until the server was reached once. */
  tools: ReadonlyMap<string, string> | null;
  listedAtMs: number;
  /** False as soon as the server or its connection changed. */
  fresh: boolean;
  refreshing: Promise<void> | null;
}

const LISTING_MAX_AGE_MS = 30_000;
const RECORDS_MAX_AGE_MS = 1_000;
const UNCLASSIFIED: ToolClassification = {
  isClassified: false,
  effect: "irreversible",
  approve: "policy",
  isTrusted: false,
  timeoutMs: null,
};

export class ToolCatalog implements AsyncDisposable {
  readonly #options: ToolCatalogOptions;
  readonly #maxAgeMs: number;
  readonly #http = new HttpClient();
  readonly #servers = new Map<string, ToolServer>();
  readonly #listings = new Map<string, Listing>();
  readonly #records: ToolRecords;
  readonly #schemas = new ArgumentSchemas();
  readonly #keeper: ListingKeeper;

  constructor(options: ToolCatalogOptions) {
    this.#options = options;
    this.#maxAgeMs = options.listingMaxAgeMs ?? LISTING_MAX_AGE_MS;
    const { clock, randomness, log, store, tenantId } = options;
    this.#records = new ToolRecords({
      store,
      tenantId,
      clock,
      log,
      digest: options.digest,
      maxAgeMs: options.recordsMaxAgeMs ?? RECORDS_MAX_AGE_MS,
      onChanged: () => options.onToolsChanged?.(),
    });
    this.#keeper = new ListingKeeper({ ...options, records: this.#records, schemas: this.#schemas });
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
   * `unseen` and their calls refused until it is there. The program's own functions come with the code that was deployed,
   * so they are pinned as they are. Rejects when the pins cannot be read, or the functions not be pinned.
   */
  async start(): Promise<void> {
    await this.#records.start();
    const servers = [...this.#servers.values()];
    await Promise.all(
      servers.map(({ name, config }) =>
        config.transport === "functions" ? this.refresh(name) : this.refresh(name).catch(() => undefined),
      ),
    );
  }

  /** All pinned tools of configured servers, sorted by name. */
  tools(): readonly CatalogTool[] {
    const records = this.#records.all().filter(({ server }) => this.#servers.has(server));
    return records.map((record) => this.#shown(record)).sort((left, right) => (left.name < right.name ? -1 : 1));
  }

  /** The pinned definition of a tool, as its server wrote it. */
  definition(tool: { readonly server: string; readonly tool: string }): Json {
    return this.#records.find(tool)?.definition ?? {};
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
    const record = this.#records.find({ server, tool });
    return record === null || !this.#servers.has(server) ? null : this.#shown(record);
  }

  server(name: string): ToolServer | null {
    return this.#servers.get(name) ?? null;
  }

  /** What the operator says of a tool today, by what was last read of the record. Never waits. */
  classification(tool: { readonly server: string; readonly tool: string }): ToolClassification {
    return this.#records.find(tool)?.classification ?? UNCLASSIFIED;
  }

  /** Names what operators say of tools now; another one when they say something else. */
  wordsVersion(): string {
    return this.#records.version;
  }

  timeoutMs(server: string, tool: string): number | null {
    return this.classification({ server, tool }).timeoutMs;
  }

  /** Somebody decided something about a tool, here or elsewhere. */
  hear(): void {
    this.#records.hear();
  }

  /**
   * Names of the tools that are not to be offered, because a call of them would be refused: all of them while the record
   * cannot be read, but for those that the caller carries out, which no server lists. Never waits.
   */
  withheld(snapshot: Snapshot): ReadonlySet<string> {
    const isWithheld = (tool: SnapshotTool): boolean =>
      !isClientTool(tool) && (!this.#records.isKnown || this.#isBlocked(tool));
    return new Set(snapshot.tools.filter(isWithheld).map((tool) => tool.name));
  }

  /**
   * Whether a snapshot's tool is still what was pinned, by a listing and a record that are fresh, and takes these
   * arguments.
   */
  async judge(tool: SnapshotTool, input: unknown): Promise<Verdict<ToolServer>> {
    const server = this.#servers.get(tool.server);
    const listing = this.#listings.get(tool.server);
    if (server === undefined || listing === undefined) {
      return deny("tool_not_allowed", "The server of this tool is not configured any more.");
    }
    try {
      await this.#records.demandFresh();
    } catch (thrown) {
      this.#options.log.error("the pins of tools cannot be read", thrown);
      return deny("database_unavailable", "It cannot be looked up whether this tool may be used.");
    }
    const { clock } = this.#options;
    if (!listing.fresh || clock.monotonicMs() - listing.listedAtMs > this.#maxAgeMs) {
      try {
        await this.refresh(tool.server);
      } catch (thrown) {
        return deny(asPlatformError(thrown).code, "The tool server cannot be reached, so the tool cannot be checked.");
      }
    }
    const refusal = this.#refusal(tool, listing.tools ?? new Map());
    if (refusal !== null) return refusal;
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

  /** Lists a server now and keeps what changed. Rejects with `tool_upstream_failed` when it cannot be reached. */
  async refresh(server: string): Promise<void> {
    const listing = this.#listings.get(server);
    if (listing === undefined) throw new PlatformError("tool_unknown", "There is no tool server of this name.");
    listing.refreshing ??= this.#refresh(server, listing).finally(() => {
      listing.refreshing = null;
    });
    await listing.refreshing;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#records[Symbol.asyncDispose]();
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
      await this.#keeper.noteFailure(server);
      throw new PlatformError("tool_upstream_failed", undefined, { cause });
    }
    const before = listing.tools;
    try {
      const { tools, isNews } = await this.#keeper.keep(server, entries);
      listing.tools = tools;
      listing.listedAtMs = startedAtMs;
      if (before !== null && (isNews || !isSameList(before, tools))) this.#options.onToolsChanged?.();
    } catch (thrown) {
      listing.fresh = false;
      throw thrown;
    }
  }

  #isBlocked(tool: SnapshotTool): boolean {
    const record = this.#records.find(tool);
    // Nothing of it was ever kept: it is judged when it is called.
    if (record === null && this.#listings.get(tool.server)?.tools === null) return false;
    const listed = this.#listings.get(tool.server)?.tools ?? null;
    // Before its server was reached nothing is known against a tool but what the record says.
    return this.#refusal(tool, listed ?? new Map([[tool.tool, record?.definitionHash ?? ""]])) !== null;
  }

  /** What keeps a snapshot's tool from being called, or `null`. */
  #refusal(tool: SnapshotTool, listed: ReadonlyMap<string, string>): Verdict<never> | null {
    const record = this.#records.find(tool);
    if (record !== null && record.state === "quarantined") {
      return deny("tool_quarantined", "Nobody has approved this tool yet, as its server offers it now.");
    }
    if (record === null || record.definitionHash !== tool.definitionHash) {
      return deny("tool_drifted", "The tool is pinned in another form than this agent was given.");
    }
    const now = listed.get(tool.tool);
    if (now === undefined) return deny("tool_drifted", "The tool server does not offer this tool any more.");
    const isPinned = now === record.definitionHash && record.state === "approved";
    return isPinned ? null : deny("tool_drifted", "The tool changed since it was pinned.");
  }

  #shown(record: ToolRecord): CatalogTool {
    const { server, tool, title, effect, definition, definitionHash } = record;
    const { description, inputSchema } = definition;
    return {
      name: wireName(server, tool, this.#options.digest),
      server,
      tool,
      title,
      effect,
      definitionHash,
      description: typeof description === "string" ? description : "",
      inputSchema: isObject(inputSchema) ? inputSchema : {},
      state: this.#stateOf(record),
    };
  }

  #stateOf({ server, tool, state, definitionHash }: ToolRecord): CatalogTool["state"] {
    const listed = this.#listings.get(server)?.tools ?? null;
    if (state === "quarantined") return "quarantined";
    if (listed === null) return "unseen";
    return state === "approved" && listed.get(tool) === definitionHash ? "ready" : "drifted";
  }
}

function isSameList(before: ReadonlyMap<string, string>, now: ReadonlyMap<string, string>): boolean {
  return before.size === now.size && [...now].every(([tool, definitionHash]) => before.get(tool) === definitionHash);
}

function deny(code: PlatformError["code"], reason: string): Verdict<never> {
  return { kind: "deny", code, reason };
}
