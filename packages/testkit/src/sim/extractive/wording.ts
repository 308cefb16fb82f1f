/** Puts what was found into two to five sentences, the last of which says that no real model answered. */
import type { Failure } from "./findings.ts";
import type { Quote } from "./quotes.ts";
import { quotable } from "./sentences.ts";

const QUOTING_NOTE = "(simulated model: this answer only quotes what it was given.)";
const ECHO_NOTE = "(simulated model: it stands in for a real one and knows nothing by itself.)";

const OPENINGS = [
  (source: string) => `According to ${source}: `,
  (source: string) => `${source} says: `,
  (source: string) => `In ${source} I found: `,
] as const;

/** `variety` chooses among wordings that mean the same. */
export function quotedAnswer(quotes: readonly Quote[], variety: number): string {
  const said: string[] = [];
  let source: string | null = null;
  for (const quote of quotes) {
    const opening = OPENINGS[(variety + said.length) % OPENINGS.length] ?? OPENINGS[0];
    const begin = quote.source === source ? "It also says: " : opening(quote.source);
    said.push(begin + sentence(quote.text));
    source = quote.source;
  }
  return `${said.join(" ")} ${QUOTING_NOTE}`;
}

export function nothingFound(question: string, searched: readonly string[]): string {
  const where = searched.length === 0 ? "what I may look at" : searched.join(", ");
  return `I looked through ${where} and found nothing about “${short(question)}”. ${QUOTING_NOTE}`;
}

export function refused(failures: readonly Failure[]): string {
  const first = failures[0];
  const reason = first === undefined ? "" : `The tool ${first.tool} did not answer: ${sentence(short(first.reason))} `;
  return `I could not look that up. ${reason}${QUOTING_NOTE}`;
}

export function toolAnswered(answers: readonly { readonly tool: string; readonly text: string }[]): string {
  const said = answers.map(({ tool, text }) =>
    text.trim() === ""
      ? `The tool ${tool} answered with nothing.`
      : `The tool ${tool} answered: ${sentence(short(text))}`,
  );
  return `${said.join(" ")} ${QUOTING_NOTE}`;
}

export function noted(message: string): string {
  return `Noted: ${sentence(short(message))} I will keep it in mind in this conversation. ${ECHO_NOTE}`;
}

export function echoed(question: string): string {
  return question.trim() === ""
    ? `Hello! There was no question in your message. ${ECHO_NOTE}`
    : `You wrote: ${sentence(short(question))} I have no documents or tools that could answer that. ${ECHO_NOTE}`;
}

export function greeted(): string {
  return `Hello! Ask me about the documents I can read. ${ECHO_NOTE}`;
}

export function remembered(sentence: string): string {
  return `${sentence} ${ECHO_NOTE}`;
}

/** In quotation marks, with a full stop behind them when the text brings no end of its own. */
function sentence(text: string): string {
  return `“${text}”${/[.!?。！？…]["”’')\]]*$/u.test(text) ? "" : "."}`;
}

function short(text: string): string {
  return quotable(text.replace(/\s+/g, " ").trim());
}
