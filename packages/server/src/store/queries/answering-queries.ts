/** What a message is answered with: on the way of every message, so it is one statement that names its tenant itself. */
import type { PinnedTool } from "@signalbox/core";
import { askRecord, type Queryable } from "../record-call.ts";
import { ANSWERING } from "../statements/record-statements.ts";
import type { RevisionRow } from "./agent-queries.ts";
import type { Viewer } from "./viewer.ts";

/** The agent at its current revision, the tools of it that are pinned, and whose the conversation is. */
export interface AnsweringRow extends RevisionRow {
  readonly name: string;
  readonly participant: string | null;
  readonly pins: readonly PinnedTool[];
}

export class AnsweringQueries {
  readonly #database: Queryable;

  /** `database` must connect as the role `signalbox_app`. */
  constructor(database: Queryable) {
    this.#database = database;
  }

  /** `null` when the viewer may not see the conversation. */
  find(viewer: Viewer, conversationId: string): Promise<AnsweringRow | null> {
    return askRecord<AnsweringRow | null>(this.#database, ANSWERING, [viewer.tenantId, viewer.user, conversationId]);
  }
}
