/** Answers from what the person said earlier in the conversation: proof that a conversation is carried on. */
import { type Entry, entryText } from "../conversation.ts";
import { readMessage } from "./message.ts";
import { subjectWords } from "./words.ts";

const STATED = /\bmy ([\p{L}\p{N}' -]{2,40}?) (?:is|are|was|=) ([^.!?\n]{1,160})/giu;
const CALLED = /\b(?:call me|i am called|i'm called) ([^.!?,\n]{1,80})/giu;
const REMEMBER = /\bremember(?: that|:)? ([^.!?\n]{3,200})/giu;
const ASKS_MINE =
  /\b(?:what|who|which|where|when|how|remember|recall|know|tell)\b[^.!\n]{0,80}?\bmy ([\p{L}\p{N}' -]{2,40}?)(?: is| was| are| called| again)?\s*(?:[?.!]|$)/iu;
const ASKS_WHO = /\bwho am i\b|\bdo you know me\b/i;
const ASKS_REMEMBERED = /\bwhat\b[^.!\n]{0,40}\b(?:i (?:ask|tell|told|asked)|did i)\b[^.!\n]{0,40}\bremember\b/i;
const ASKS_BEFORE =
  /\bwhat (?:was|is|were) my (?:very )?(?:first|last|previous|earlier) (?:question|message)\b|\bwhat did i (?:just |first )?(?:ask|say|write)\b/i;
/** What only the person can know: no document is asked for it. */
const PERSONAL =
  /^(?:full |first |last )?(?:name|age|birthday|job|city|country|hometown|email|code ?word|favou?rite .*)$/i;

const NAME = subjectWords("name").join(" ");

export interface Recollection {
  /** Entries before the question, oldest first. */
  readonly earlier: readonly Entry[];
  /** True when there are documents or tools that could answer as well. */
  readonly canLookUp: boolean;
}

/** A sentence that answers from earlier messages, or null when the question is about something else. */
export function recall(question: string, { earlier, canLookUp }: Recollection): string | null {
  const messages = earlier.filter((entry) => entry.role === "user" && entryText(entry).trim() !== "");
  const said = messages.map((entry) => readMessage(entry).question);
  if (ASKS_REMEMBERED.test(question)) {
    const noted = lastMatch(said, REMEMBER);
    return noted === null
      ? "You have not asked me to remember anything in this conversation."
      : `You asked me to remember: “${noted}”.`;
  }
  if (ASKS_BEFORE.test(question)) {
    return earlierMessage(question, said);
  }
  const mine = ASKS_WHO.test(question) ? "name" : ASKS_MINE.exec(question)?.[1]?.trim();
  if (mine === undefined) {
    return null;
  }
  const value = statedValue(mine, [...said, question]) ?? statedValue(mine, messages.map(entryText));
  if (value !== null) {
    return `Your ${mine} is ${value}: you told me so in this conversation.`;
  }
  return canLookUp && !PERSONAL.test(mine) ? null : `You have not told me your ${mine} in this conversation.`;
}

/** True for a message that only tells something about the person or asks to remember it. */
export function tellsSomething(message: string): boolean {
  return !message.includes("?") && [STATED, CALLED, REMEMBER].some((pattern) => message.search(pattern) >= 0);
}

function statedValue(mine: string, said: readonly string[]): string | null {
  const wanted = subjectWords(mine).join(" ");
  for (const text of said.toReversed()) {
    for (const match of [...text.matchAll(STATED)].toReversed()) {
      if (subjectWords(match[1] ?? "").join(" ") === wanted) {
        return (match[2] ?? "").trim();
      }
    }
    const called = [...text.matchAll(CALLED)].at(-1)?.[1];
    if (wanted === NAME && called !== undefined) {
      return called.trim();
    }
  }
  return null;
}

function lastMatch(said: readonly string[], pattern: RegExp): string | null {
  for (const text of said.toReversed()) {
    const match = [...text.matchAll(pattern)].at(-1)?.[1];
    if (match !== undefined) {
      return match.trim();
    }
  }
  return null;
}

function earlierMessage(question: string, said: readonly string[]): string {
  const wanted = /\bfirst\b/i.test(question) ? said[0] : said.at(-1);
  const which = /\bfirst\b/i.test(question) ? "first" : "previous";
  return wanted === undefined
    ? "This is the first message of our conversation."
    : `Your ${which} message was: “${wanted.slice(0, 300).toWellFormed()}”.`;
}
