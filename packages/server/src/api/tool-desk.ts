/** What the API does with tools and their servers. Wiring joins it to the store and to the gates. */
import type { Actor, ClassifyTool, McpServer, Tool, ToolDetail, ToolsQuery } from "@signalbox/contract";
import type { Once, Page, Recorded, Scope } from "./api-record.ts";

/** A tool is named as models see it, `server__tool`. Every method ends in `not_found` for one that is not there. */
export interface ToolDesk {
  /** In order of their names. Errors: `invalid_cursor`. */
  tools(scope: Scope, query: ToolsQuery): Promise<Page<Tool>>;
  tool(scope: Scope, name: string): Promise<ToolDetail>;
  /** Errors: `approval_changed`, `idempotency_key_reused`. */
  approve(
    scope: Scope,
    command: { readonly name: string; readonly digest: string; readonly actor: Actor },
    once: Once<Tool> | null,
  ): Promise<Recorded<Tool>>;
  /** Errors: `idempotency_key_reused`. */
  classify(
    scope: Scope,
    command: { readonly name: string; readonly change: ClassifyTool; readonly actor: Actor },
    once: Once<Tool> | null,
  ): Promise<Recorded<Tool>>;
  servers(scope: Scope): Promise<readonly McpServer[]>;
}
