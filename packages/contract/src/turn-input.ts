/**
 * The dynamic part of a turn: one versioned form, placed inside the user message and never in the system text, so
 * that the static prefix stays byte-identical and retrieved text never gains the operator's authority.
 */
export interface TurnInput {
  readonly version: 1;
  readonly trigger: "user" | "job" | "schedule" | "webhook" | "resume";
  readonly mode: string | null;
  /** RFC 3339, UTC. */
  readonly now: string;
  readonly lastUserMessageAgeMs: number | null;
  readonly lastUserSnippet: string | null;
  readonly actor: { readonly user: string | null; readonly roles: readonly string[] };
  readonly channel: { readonly kind: string } | null;
  readonly context: readonly { readonly name: string; readonly value: string }[];
  readonly passages: readonly { readonly id: string; readonly text: string; readonly source: string }[];
  readonly facts: readonly string[];
}

/** What the block begins with. */
export const TURN_INPUT_OPEN = "<signalbox-turn>";
/** What the block ends with. */
export const TURN_INPUT_CLOSE = "</signalbox-turn>";

/** The block that goes before the user's own text. `<` is escaped so that no value can close the block. */
export function renderTurnInput(input: TurnInput): string {
  return `${TURN_INPUT_OPEN}${JSON.stringify(input).replaceAll("<", "\\u003c")}${TURN_INPUT_CLOSE}`;
}

/** A user message as an engine receives it: the rendered form, then what the person wrote, as separate parts. */
export interface ComposedMessage {
  readonly turnId: string;
  readonly parts: readonly string[];
}

/** One line of the history as a fresh session is seeded with it on the rung `rebuilt`. */
export interface HistoryEntry {
  readonly role: "user" | "assistant";
  readonly text: string;
}
