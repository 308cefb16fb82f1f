/**
 * Tells the record what servers list, one listing after the other, so that names of tools can be compared with those of
 * the other servers. A listing that says what the one before it said is told again only now and then.
 */
import { canonicalJson, type Posture } from "@signalbox/contract";
import type { Clock, Digest, ListingTrust, Log, ServerPlace, ToolRecord, ToolStore } from "@signalbox/core";
import type { ArgumentSchemas } from "./argument-schema.ts";
import type { Json } from "./mcp-protocol.ts";
import { readListing, type ReadListing } from "./server-listing.ts";
import { originOf } from "./server-origin.ts";
import type { ToolRecords } from "./tool-records.ts";
import type { ToolServer } from "./tool-server.ts";

export interface ListingKeeperOptions {
  readonly store: ToolStore;
  readonly records: ToolRecords;
  readonly schemas: ArgumentSchemas;
  readonly tenantId: string;
  readonly posture: Posture;
  readonly clock: Clock;
  readonly digest: Digest;
  readonly log: Log;
}

export interface KeptListing {
  /** Hashes of definitions by name. */
  readonly tools: ReadonlyMap<string, string>;
  /** Whether anything that is known of the server's tools is not what it was. */
  readonly isNews: boolean;
}

interface Told {
  readonly text: string;
  readonly atMs: number;
}

/** The record is told at least so often when a server was listed last, or since when it could not be. */
const TOLD_MAX_AGE_MS = 30_000;

export class ListingKeeper {
  readonly #options: ListingKeeperOptions;
  /** By server. */
  readonly #told = new Map<string, Told>();
  readonly #failures = new Map<string, number>();
  #keeping: Promise<unknown> = Promise.resolve();

  constructor(options: ListingKeeperOptions) {
    this.#options = options;
  }

  /** Rejects when the record cannot be told. */
  keep(server: ToolServer, entries: readonly Json[]): Promise<KeptListing> {
    const kept = this.#keeping.then(() => this.#keep(server, entries));
    this.#keeping = kept.catch(() => undefined);
    return kept;
  }

  /** A server could not be listed. Never rejects. */
  async noteFailure(server: ToolServer): Promise<void> {
    const { store, log, clock } = this.#options;
    const { name } = server;
    this.#told.delete(name);
    const beforeMs = this.#failures.get(name);
    if (beforeMs !== undefined && clock.monotonicMs() - beforeMs < TOLD_MAX_AGE_MS) return;
    this.#failures.set(name, clock.monotonicMs());
    try {
      await store.noteFailure(this.#placeOf(server), "it cannot be listed");
    } catch (thrown) {
      log.error("a failing tool server could not be noted", thrown, { server: name });
    }
  }

  async #keep(server: ToolServer, entries: readonly Json[]): Promise<KeptListing> {
    const { digest, log, records, schemas } = this.#options;
    const { name, config } = server;
    this.#failures.delete(name);
    const otherNames = records
      .all()
      .filter((record) => record.server !== name)
      .map(({ tool }) => tool);
    const read = readListing(entries, { digest, schemas, config, otherNames });
    if (!this.#told.has(name)) {
      for (const { tool, problem } of read.leftOut) log.warn("a tool is left out", { server: name, tool, problem });
    }
    const isNews = this.#isTold(server, read) ? false : await this.#tell(server, read);
    return { tools: new Map(read.tools.map(({ tool, definitionHash }) => [tool, definitionHash])), isNews };
  }

  /** Whether the record would make nothing of this listing that it has not made of the one before. */
  #isTold(server: ToolServer, read: ReadListing): boolean {
    const told = this.#told.get(server.name);
    if (told === undefined) return false;
    // Functions do not change while their program runs; another program with other ones must not be taken for news.
    if (server.config.transport === "functions") return true;
    const { clock, records } = this.#options;
    if (clock.monotonicMs() - told.atMs > TOLD_MAX_AGE_MS || told.text !== canonicalJson(read)) return false;
    const { originHash } = this.#placeOf(server);
    return read.tools.every(({ tool, definitionHash }) => {
      const record = records.find({ server: server.name, tool });
      const last = record?.seen ?? record;
      return record?.isOffered === true && last?.definitionHash === definitionHash && last.originHash === originHash;
    });
  }

  async #tell(server: ToolServer, read: ReadListing): Promise<boolean> {
    const { posture, store, clock, records, log } = this.#options;
    const trust: ListingTrust = server.config.transport === "functions" ? "program" : posture;
    const atMs = clock.monotonicMs();
    const kept = await store.observe({ ...this.#placeOf(server), ...read, trust });
    for (const { server: name, tool, state } of kept.filter((record) => isBlockedNow(record, records))) {
      log.warn(`a tool is ${state} and blocked`, { server: name, tool });
    }
    this.#told.set(server.name, { text: canonicalJson(read), atMs });
    return records.put(kept);
  }

  #placeOf({ name, config }: ToolServer): ServerPlace {
    const { tenantId, digest } = this.#options;
    return { tenantId, server: name, transport: config.transport, ...originOf(config, digest) };
  }
}

function isBlockedNow({ server, tool, state }: ToolRecord, before: ToolRecords): boolean {
  return state !== "approved" && before.find({ server, tool })?.state !== state;
}
