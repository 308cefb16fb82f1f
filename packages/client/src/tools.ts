/** Tools of the tenant's servers: what is pinned, what changed, and what an operator says of them. */
import {
  mcpServerPageSchema,
  toolDetailSchema,
  toolPageSchema,
  toolSchema,
  type ClassifyTool,
  type McpServer,
  type Tool,
  type ToolDetail,
  type ToolsQuery,
} from "@signalbox/contract";
import { queryOf, type ListOptions, type Page } from "./list.ts";
import type { Transport } from "./transport.ts";

/** Which tools to list. */
export interface ToolFilter extends Omit<ListOptions, "order"> {
  readonly server?: string;
  readonly state?: NonNullable<ToolsQuery["state"]>;
}

/**
 * Tools are named as models see them, `server__tool`. The key must have the right `operate` and speak for no end user.
 * Every method that names one can end in `not_found`.
 */
export class Tools {
  readonly #transport: Transport;

  constructor(transport: Transport) {
    this.#transport = transport;
  }

  /** By name. Errors: `invalid_cursor`. */
  list(filter: ToolFilter = {}): Promise<Page<Tool>> {
    return this.#transport.json({ method: "GET", path: `/v1/tools${queryOf(filter)}` }, (body) =>
      toolPageSchema.parse(body),
    );
  }

  get(name: string): Promise<ToolDetail> {
    return this.#transport.json({ method: "GET", path: pathOf(name) }, (body) => toolDetailSchema.parse(body));
  }

  /**
   * Approves the form and the address that `digest` names, from the tool as it was shown. Errors: `approval_changed`
   * when it is listed otherwise by now.
   */
  approve(name: string, digest: string): Promise<Tool> {
    return this.#post(`${pathOf(name)}/approve`, { digest });
  }

  /** What is left out stays. */
  classify(name: string, change: ClassifyTool): Promise<Tool> {
    return this.#post(`${pathOf(name)}/classify`, change);
  }

  async servers(): Promise<readonly McpServer[]> {
    const page = await this.#transport.json({ method: "GET", path: "/v1/mcp-servers" }, (body) =>
      mcpServerPageSchema.parse(body),
    );
    return page.data;
  }

  #post(path: string, body: object): Promise<Tool> {
    return this.#transport.json({ method: "POST", path, body, repeatable: true }, (answer) => toolSchema.parse(answer));
  }
}

function pathOf(name: string): string {
  return `/v1/tools/${encodeURIComponent(name)}`;
}
