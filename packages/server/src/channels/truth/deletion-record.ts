/** Deleting conversations: the mark and the cancels in one statement, the tombstone as soon as no call is open. */
import type { Actor } from "@signalbox/contract";
import type { LiveChannel } from "@signalbox/core";
import { actorText } from "../../store/actor-text.ts";
import { askRecord, type Queryable } from "../../store/record-call.ts";
import { DELETE_CONVERSATION } from "../../store/statements/record-statements.ts";

export interface DeleteCommand {
  readonly tenantId: string;
  readonly user: string | null;
  readonly conversationId: string;
  readonly actor: Actor;
}

interface DeleteAnswer {
  /** `requested`: something is still running or outside. */
  readonly kind: "deleted" | "requested";
  readonly sequence: number;
}

export interface DeletionRecord {
  /** True once nothing of the conversation is to be seen any more. Errors: `not_found`. */
  delete(command: DeleteCommand): Promise<boolean>;
}

/** `database` must connect as the role `signalbox_run`: a request could not see the tombstone it makes. */
export function createDeletionRecord(parts: {
  readonly database: Queryable;
  readonly live: Pick<LiveChannel, "ring" | "ringGates" | "ringSupervisors">;
}): DeletionRecord {
  const { database, live } = parts;
  return {
    async delete({ tenantId, user, conversationId, actor }) {
      const values = [tenantId, user, conversationId, actorText(actor)];
      const { kind, sequence } = await askRecord<DeleteAnswer>(database, DELETE_CONVERSATION, values);
      live.ring(conversationId, sequence);
      if (kind === "requested") {
        live.ringGates(conversationId);
        live.ringSupervisors();
      }
      return kind === "deleted";
    },
  };
}
