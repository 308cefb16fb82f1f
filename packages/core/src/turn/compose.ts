/**
 * Prepares the turn. The static prefix (instructions and tools) comes from the snapshot alone, so it is the same bytes
 * from turn to turn and provider caches hit; everything that changes goes into one form inside the user message.
 */
import {
  canonicalJson,
  clip,
  renderTurnInput,
  type ComposedMessage,
  type Rung,
  type Snapshot,
  type TurnInput,
} from "@signalbox/contract";
import type { Limits } from "../kernel/limits.ts";
import { rfc3339 } from "../kernel/timestamp.ts";
import type { Claim } from "../ports/ownership-record.ts";
import { missedFacts } from "./past.ts";

/** `rung`: on which the transcript stands. One that begins anew has the whole history; one that goes on is told what it lacks. */
export function composeTurn(
  claim: Claim,
  turn: { readonly turnId: string; readonly rung: Rung },
  limits: Limits,
): ComposedMessage {
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
    facts: turn.rung === "native" ? missedFacts(claim.missed) : [],
  };
  // What an earlier attempt took in on the way is part of the turn from its beginning now.
  return { turnId: turn.turnId, parts: [renderTurnInput(input), claim.text, ...claim.takenIn.map(({ text }) => text)] };
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
