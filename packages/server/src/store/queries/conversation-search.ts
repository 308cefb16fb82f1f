/**
 * Conversations by their words. The statement runs beside the tenant's policy, under which an index of words cannot be
 * used; it names the tenant itself, and what it finds is read again under the policy.
 */
import { PlatformError } from "@signalbox/contract";
import { LIMITS } from "@signalbox/core";
import { isOutOfTime } from "../database-errors.ts";
import { boundStatement, findConversations } from "../statements/conversation-statements.ts";
import type { TenantDatabase } from "../tenant-database.ts";

export interface SearchRequest {
  readonly tenantId: string;
  readonly user: string | null;
  readonly agentId: string | undefined;
  readonly archived: boolean | undefined;
  readonly text: string;
  readonly after: string | null;
  readonly order: "asc" | "desc";
  readonly limit: number;
}

export class ConversationSearch {
  readonly #database: TenantDatabase;

  /** `database` must connect as the role `signalbox_run`. */
  constructor(database: TenantDatabase) {
    this.#database = database;
  }

  /** Ids of the page and of one conversation beyond it. Errors: `search_too_broad`. */
  async find(request: SearchRequest): Promise<readonly string[]> {
    try {
      return await this.#database.transaction(request.tenantId, async (transaction) => {
        await boundStatement(LIMITS.searchMs).execute(transaction);
        const { rows } = await findConversations(request).execute(transaction);
        return rows[0]?.found ?? [];
      });
    } catch (thrown) {
      if (thrown instanceof PlatformError && isOutOfTime(thrown.cause)) {
        throw new PlatformError("search_too_broad", undefined, { cause: thrown });
      }
      throw thrown;
    }
  }
}
