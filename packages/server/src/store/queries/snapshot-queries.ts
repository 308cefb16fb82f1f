/** Snapshots by their hash. They never change, so whoever has read one may keep it. */
import type { Snapshot } from "@signalbox/contract";
import type { Tenants } from "../tenant-database.ts";

export class SnapshotQueries {
  readonly #database: Tenants;

  constructor(database: Tenants) {
    this.#database = database;
  }

  async find(tenantId: string, hash: string): Promise<Snapshot | null> {
    const row = await this.#database.transaction(tenantId, (transaction) =>
      transaction.selectFrom("signalbox.snapshot").select("body").where("hash", "=", hash).executeTakeFirst(),
    );
    // Only admission writes snapshots, from a value of this type.
    return row === undefined ? null : (JSON.parse(row.body) as Snapshot);
  }
}
