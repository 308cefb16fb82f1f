/**
 * Prepares the turn. The static prefix (instructions and tools) comes from the snapshot alone, so it is the same bytes
 * from turn to turn and provider caches hit; everything that changes goes into one form inside the user message.
 */
import {
  canonicalJson,
  clip,
  renderTurnInput,
  type ComposedMessage,
  type Snapshot,
  type TurnInput,
} from "@signalbox/contract";
import type { Limits } from "../kernel/limits.ts";
import { rfc3339 } from "../kernel/timestamp.ts";
import type { Claim } from "../ports/ownership-record.ts";

export function composeTurn(claim: Claim, turnId: string, limits: Limits): ComposedMessage {
  const input: TurnInput = {
    version: 1,
    trigger: "user",
    mode: null,
    now: rfc3339(claim.nowMs),
    lastUserMessageAgeMs: claim.lastUserMessageAgeMs,
    lastUserSnippet: claim.lastUserSnippet === null ? null : clip(claim.lastUserSnippet, limits.snippetChars),
    actor: { user: claim.actor.user, roles: claim.actor.roles },
    channel: null,
    context: [],
    passages: [],
    facts: [],
  };
  // What an earlier attempt took in on the way is part of the turn from its beginning now.
  return { turnId, parts: [renderTurnInput(input), claim.text, ...claim.takenIn.map(({ text }) => text)] };
}

/** What every turn of this snapshot begins with; its hash is recorded with the turn. */
export function staticPrefix(snapshot: Snapshot): string {
  const tools = snapshot.tools.map(({ name, title, description, inputSchema }) => ({
    name,
    title,
    description,
    inputSchema,
  }));
  return canonicalJson({ instructions: snapshot.instructions, model: snapshot.model, tools });
}
