/** Tools as a server listed them, in the record. */
import type { ListedDefinition, PinnedTool, ListingTrust, ServerListing, ToolRecord } from "@signalbox/core";
import { ToolQueries } from "../../../packages/server/src/store/queries/tool-queries.ts";
import type { TenantDatabase } from "../../../packages/server/src/store/tenant-database.ts";

export function listingOf(
  tenantId: string,
  tools: readonly PinnedTool[],
  more: Partial<ServerListing> = {},
): ServerListing {
  const listed = tools.map(({ tool, title, definition, definitionHash, effect }): ListedDefinition => {
    const settings = { effect, approve: "policy", isTrusted: false, timeoutMs: null } as const;
    return { tool, title, definition, definitionHash, lints: [], settings };
  });
  const trust: ListingTrust = "dev";
  const server = tools[0]?.server ?? "files";
  const place = { tenantId, server, transport: "http", origin: "http://files.test/mcp", originHash: "here" } as const;
  return { ...place, tools: listed, leftOut: [], trust, ...more };
}

export function pinTools(
  tenants: TenantDatabase,
  tenantId: string,
  tools: readonly PinnedTool[],
): Promise<readonly ToolRecord[]> {
  return new ToolQueries(tenants).observe(listingOf(tenantId, tools));
}
