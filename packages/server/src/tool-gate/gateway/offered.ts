/** Which tools clients of the gateway see. What they do not see does not exist for them. */
import { judgeClientCall, type Verdict } from "@signalbox/core";
import type { ClientJudge } from "../../gates/client-judge.ts";
import type { CatalogTool, ToolCatalog } from "../tool-catalog.ts";
import type { Exchange } from "./exchange.ts";
import { unknownTool } from "./unknown-tool.ts";

/** Whether this client is shown a tool: offered by its operator, listed as it was pinned, and within the policy's reach. */
export async function offeredTo(
  { catalog, judge }: { readonly catalog: ToolCatalog; readonly judge: ClientJudge },
  { caller, principal }: Pick<Exchange, "caller" | "principal">,
): Promise<(tool: CatalogTool) => boolean> {
  const isWithinReach = await judge.reach({ ...caller, principal });
  return (tool) => tool.state === "ready" && mayBeCalled(catalog, tool) && isWithinReach(tool);
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
  return clientVerdict(catalog, tool).kind === "allow";
}

/** What the operator's declaration says about clients and this tool. */
export function clientVerdict(catalog: ToolCatalog, tool: CatalogTool): Verdict<true> {
  const config = catalog.server(tool.server)?.config;
  const { isClassified } = catalog.classification(tool);
  return judgeClientCall({
    clients: config?.clients ?? "classified",
    classified: isClassified,
  });
}
