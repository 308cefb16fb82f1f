/** Pins of tools. */
import type { EffectClass } from "@signalbox/contract";
import type { PinnedTool, ToolStore } from "@signalbox/core";
import { clock } from "../statements/tenant-statements.ts";
import type { Tenants } from "../tenant-database.ts";

export class ToolQueries implements ToolStore {
  readonly #database: Tenants;

  constructor(database: Tenants) {
    this.#database = database;
  }

  async list(tenantId: string): Promise<readonly PinnedTool[]> {
    const rows = await this.#database.transaction(tenantId, (transaction) =>
      transaction
        .selectFrom("signalbox.tool")
        .select(["server", "tool", "title", "definition", "definition_hash", "effect"])
        .orderBy("server")
        .orderBy("tool")
        .execute(),
    );
    return rows.map((row) => ({
      server: row.server,
      tool: row.tool,
      title: row.title,
      // `save` stored an object; the table constrains the effect class.
      definition: row.definition as Readonly<Record<string, unknown>>,
      definitionHash: row.definition_hash,
      effect: row.effect as EffectClass,
    }));
  }

  async save(tenantId: string, tools: readonly PinnedTool[]): Promise<void> {
    if (tools.length === 0) {
      return;
    }
    await this.#database.transaction(tenantId, (transaction) =>
      transaction
        .insertInto("signalbox.tool")
        .values(
          tools.map((pin) => ({
            tenant_id: tenantId,
            server: pin.server,
            tool: pin.tool,
            title: pin.title,
            definition: JSON.stringify(pin.definition),
            definition_hash: pin.definitionHash,
            effect: pin.effect,
          })),
        )
        .onConflict((conflict) =>
          conflict.columns(["tenant_id", "server", "tool"]).doUpdateSet((row) => ({
            title: row.ref("excluded.title"),
            definition: row.ref("excluded.definition"),
            definition_hash: row.ref("excluded.definition_hash"),
            effect: row.ref("excluded.effect"),
            listed_at: clock(),
          })),
        )
        .execute(),
    );
  }
}
