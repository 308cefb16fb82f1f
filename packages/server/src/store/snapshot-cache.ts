/**
 * Snapshots this process has seen, by tenant and hash. They never change, so what was read once need not be read or
 * sent again. Bounded: the one that was not asked for the longest goes first.
 */
import { PlatformError, type Snapshot } from "@signalbox/contract";
import { readRows, type Queryable } from "./record-call.ts";
import { FIND_SNAPSHOT } from "./statements/record-statements.ts";

const DEFAULT_SNAPSHOTS = 512;

export class SnapshotCache {
  readonly #database: Queryable;
  readonly #limit: number;
  readonly #known = new Map<string, Snapshot>();

  /** `database` reads with the rights of the run side. */
  constructor(database: Queryable, limit: number = DEFAULT_SNAPSHOTS) {
    this.#database = database;
    this.#limit = limit;
  }

  /** Whether the record is known to have it. */
  has(tenantId: string, hash: string): boolean {
    return this.#known.has(keyOf(tenantId, hash));
  }

  /** The record has this one: it was read from there, or a transaction that stored it was committed. */
  put(tenantId: string, hash: string, snapshot: Snapshot): void {
    const key = keyOf(tenantId, hash);
    this.#known.delete(key);
    this.#known.set(key, snapshot);
    for (const oldest of this.#known.keys()) {
      if (this.#known.size <= this.#limit) {
        break;
      }
      this.#known.delete(oldest);
    }
  }

  forget(tenantId: string, hash: string): void {
    this.#known.delete(keyOf(tenantId, hash));
  }

  async get(tenantId: string, hash: string): Promise<Snapshot> {
    const known = this.#known.get(keyOf(tenantId, hash));
    if (known !== undefined) {
      this.put(tenantId, hash, known);
      return known;
    }
    const [row] = await readRows<{ readonly body: string }>(this.#database, FIND_SNAPSHOT, [tenantId, hash]);
    if (row === undefined) {
      throw new PlatformError("internal", undefined, { cause: new Error(`the record has no snapshot ${hash}`) });
    }
    // Only admission writes snapshots, from a value of this type.
    const snapshot = JSON.parse(row.body) as Snapshot;
    this.put(tenantId, hash, snapshot);
    return snapshot;
  }
}

function keyOf(tenantId: string, hash: string): string {
  return `${hash} ${tenantId}`;
}
