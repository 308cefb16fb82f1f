/** Pins of tools in memory: what the database keeps in its table of tools, decided by the same rules. */
import {
  judgeListing,
  type ListedDefinition,
  type ServerListing,
  type ServerPlace,
  type ToolClassification,
  type ToolRecord,
  type ToolSettings,
  type ToolStore,
} from "@signalbox/core";

/** One tenant's pins. Set `isDown` and every method rejects, as when the database is away. */
export class MemoryToolStore implements ToolStore {
  /** By `server/tool`. */
  readonly pins = new Map<string, ToolRecord>();
  /** Servers that could not be listed, in the order of the tries. */
  readonly failures: string[] = [];
  isDown = false;

  list(): Promise<readonly ToolRecord[]> {
    return this.#answer(() => [...this.pins.values()]);
  }

  observe(listing: ServerListing): Promise<readonly ToolRecord[]> {
    return this.#answer(() => {
      for (const listed of listing.tools) this.#follow(listing, listed);
      const names = new Set(listing.tools.map(({ tool }) => tool));
      const own = [...this.pins.values()].filter(({ server }) => server === listing.server);
      for (const pin of own) if (!names.has(pin.tool)) this.#put({ ...pin, isOffered: false });
      return own.map((pin) => this.pins.get(keyOf(pin)) ?? pin).concat(this.#added(listing, own));
    });
  }

  noteFailure({ server }: ServerPlace): Promise<void> {
    return this.#answer(() => void this.failures.push(server));
  }

  /** Pins a tool as it was listed last. */
  approve(server: string, tool: string): void {
    const pin = this.pins.get(`${server}/${tool}`);
    if (pin === undefined) throw new Error("there is no such tool");
    this.#put({ ...pin, ...pin.seen, seen: null, state: "approved" });
  }

  /** What the operator says of a tool from now on. */
  classify(server: string, tool: string, change: Partial<ToolSettings>): void {
    const pin = this.pins.get(`${server}/${tool}`);
    if (pin === undefined) throw new Error("there is no such tool");
    const classification = { ...pin.classification, ...change, isClassified: true };
    this.#put({ ...pin, classification, effect: classification.effect });
  }

  #answer<T>(work: () => T): Promise<T> {
    return this.isDown ? Promise.reject(new Error("the store is down")) : Promise.resolve(work());
  }

  #put(pin: ToolRecord): void {
    this.pins.set(keyOf(pin), pin);
  }

  #added(listing: ServerListing, own: readonly ToolRecord[]): readonly ToolRecord[] {
    const known = new Set(own.map(keyOf));
    return [...this.pins.values()].filter((pin) => pin.server === listing.server && !known.has(keyOf(pin)));
  }

  #follow(listing: ServerListing, listed: ListedDefinition): void {
    const { server, origin, originHash, trust } = listing;
    const { tool, title, definition, definitionHash, lints } = listed;
    const form = { definitionHash, origin: originHash, isBlocked: lints.some(({ grade }) => grade === "block") };
    const before = this.pins.get(`${server}/${tool}`) ?? null;
    const seen =
      before?.seen === undefined || before.seen === null
        ? null
        : { definitionHash: before.seen.definitionHash, origin: before.seen.originHash };
    const pinned =
      before === null
        ? null
        : { state: before.state, definitionHash: before.definitionHash, origin: before.originHash, seen };
    const change = judgeListing(pinned, form, trust);
    const classification = classified(before, listed);
    const listedNow = { definition, definitionHash, origin, originHash };
    if (before === null) {
      const { effect } = classification;
      const rest = { seen: null, isOffered: true, lints, approvedAtMs: null, classification, effect };
      this.#put({ server, tool, title, ...listedNow, ...rest, state: change?.state ?? "new" });
      return;
    }
    const isPinned = before.definitionHash === definitionHash && before.originHash === originHash;
    const pin = { ...before, classification, effect: classification.effect, isOffered: true };
    if (change?.event === "trust") {
      this.#put({ ...pin, ...listedNow, title, lints, state: change.state, seen: null });
      return;
    }
    this.#put(change === null ? pin : { ...pin, lints, state: change.state, seen: isPinned ? null : listedNow });
  }
}

function classified(before: ToolRecord | null, { settings }: ListedDefinition): ToolClassification {
  if (settings !== null) return { ...settings, isClassified: true };
  const nothing = { effect: "irreversible", approve: "policy", isTrusted: false, timeoutMs: null } as const;
  return before?.classification ?? { ...nothing, isClassified: false };
}

function keyOf({ server, tool }: { readonly server: string; readonly tool: string }): string {
  return `${server}/${tool}`;
}
