/** Which tools clients of the gateway see. What they do not see does not exist for them. */
import { judgeClientCall } from "@signalbox/core";
import type { CatalogTool, ToolCatalog } from "../tool-catalog.ts";
import { unknownTool } from "./gateway-calls.ts";

/** Whether clients are shown the tool: offered by its operator, and listed as it was pinned. */
export function isOffered(catalog: ToolCatalog, tool: CatalogTool): boolean {
  return tool.state === "ready" && mayBeCalled(catalog, tool);
}

/** The tool a client names. Throws the same problem for one that is not there and one that is not for clients. */
export function offeredTool(
  catalog: ToolCatalog,
  named: { readonly server: string; readonly name: unknown },
): CatalogTool {
  const tool = typeof named.name === "string" ? catalog.find(named.server, named.name) : null;
  if (tool === null || !mayBeCalled(catalog, tool)) throw unknownTool(String(named.name));
  return tool;
}

function mayBeCalled(catalog: ToolCatalog, tool: CatalogTool): boolean {
  const config = catalog.server(tool.server)?.config;
  const classified = config?.tools[tool.tool] !== undefined;
  return judgeClientCall({ clients: config?.clients ?? "classified", classified }).kind === "allow";
}
