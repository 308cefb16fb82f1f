/**
 * Tools as they were pinned: what a server said about a tool when it was first seen, or when somebody approved it.
 * What runs must still be what was pinned, so a listing that differs from its pin blocks the tool.
 */
import type { EffectClass } from "@signalbox/contract";

export interface PinnedTool {
  readonly server: string;
  /** Name as the server lists it, without a prefix. */
  readonly tool: string;
  readonly title: string;
  /** Name, title, description, input and output schema and annotations, exactly as listed. */
  readonly definition: Readonly<Record<string, unknown>>;
  /** SHA-256 (hex) over the canonical JSON of `definition`. */
  readonly definitionHash: string;
  /** As the operator classified it; `irreversible` when nobody did. Not part of the definition. */
  readonly effect: EffectClass;
}

export interface ToolStore {
  /** All pins of a tenant, sorted by server and tool. */
  list(tenantId: string): Promise<readonly PinnedTool[]>;
  /** Inserts pins, or replaces those of the same (server, tool), in one transaction; sets their time of listing. */
  save(tenantId: string, tools: readonly PinnedTool[]): Promise<void>;
}
