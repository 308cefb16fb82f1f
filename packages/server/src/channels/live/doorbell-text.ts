/** What one NOTIFY carries: who rings, and for which conversations up to which sequence. */
export interface Doorbell {
  readonly origin: string;
  readonly supervisors: boolean;
  readonly conversations: ReadonlyMap<string, number>;
  /** Conversations in which other ones may act than before. */
  readonly gates: ReadonlySet<string>;
}

/** PostgreSQL takes less than 8000 bytes; ids and numbers are ASCII. */
const TEXT_LIMIT = 7_900;
const SUPERVISORS = "*";
/** Releases that do not know it pass over a part without a colon. */
const GATES = "!";

/** As many texts as it takes. */
export function writeDoorbells(bell: Doorbell): readonly string[] {
  const parts = [
    ...[...bell.gates].map((conversationId) => `${GATES}${conversationId}`),
    ...[...bell.conversations].map(([conversationId, sequence]) => `${conversationId}:${sequence}`),
  ];
  const texts: string[] = [];
  let text = `${bell.origin} ${bell.supervisors ? SUPERVISORS : ""}`;
  for (const part of parts) {
    if (text.length + part.length + 1 > TEXT_LIMIT) {
      texts.push(text);
      text = `${bell.origin} `;
    }
    text += `${text.endsWith(" ") ? "" : ","}${part}`;
  }
  return [...texts, text];
}

/** `null` for a text that is none of ours. */
export function readDoorbell(text: string): Doorbell | null {
  const gap = text.indexOf(" ");
  if (gap <= 0) {
    return null;
  }
  const conversations = new Map<string, number>();
  const gates = new Set<string>();
  let supervisors = false;
  for (const part of text.slice(gap + 1).split(",")) {
    const colon = part.lastIndexOf(":");
    const sequence = Number(part.slice(colon + 1));
    if (part === SUPERVISORS) {
      supervisors = true;
    } else if (part.startsWith(GATES)) {
      gates.add(part.slice(GATES.length));
    } else if (colon > 0 && Number.isSafeInteger(sequence)) {
      conversations.set(part.slice(0, colon), sequence);
    }
  }
  return { origin: text.slice(0, gap), supervisors, conversations, gates };
}
