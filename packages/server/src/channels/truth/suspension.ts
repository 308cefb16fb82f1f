/** The end of patience, for an owner and for a gate. */
import type { Held, LiveChannel, Suspension } from "@signalbox/core";
import { askRecord, type Queryable } from "../../store/record-call.ts";
import { SUSPEND } from "../../store/statements/operator-statements.ts";

export interface SuspensionParts {
  /** Connects as `signalbox_run`. */
  readonly database: Queryable;
  readonly live: Pick<LiveChannel, "ring">;
}

export async function suspendHeld({ database, live }: SuspensionParts, held: Held): Promise<Suspension> {
  const { conversationId, generation } = held;
  const answer = await askRecord<{ readonly kind: Suspension; readonly sequence?: number }>(database, SUSPEND, [
    conversationId,
    generation,
  ]);
  if (answer.sequence !== undefined) live.ring(conversationId, answer.sequence);
  return answer.kind;
}
