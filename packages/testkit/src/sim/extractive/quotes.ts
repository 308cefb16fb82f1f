/** Picks the sentences that share most with a question, rare words counting more than frequent ones. */
import type { Source } from "./message.ts";
import { quotable, sentencesOf } from "./sentences.ts";
import { overlap, wordsOf } from "./words.ts";

export interface Quote {
  readonly source: string;
  readonly text: string;
}

export interface Quotes {
  /** Best first in their source, sources in the order of their best sentence. */
  readonly quotes: readonly Quote[];
  /** Share of the question's words that occur in the quotes, 0 to 1. */
  readonly coverage: number;
}

interface Candidate extends Quote {
  readonly words: ReadonlySet<string>;
  readonly place: number;
  score: number;
}

const MOST_QUOTES = 3;
/** A sentence that scores less than this share of the best one is not worth a quote. */
const WORTH = 0.45;
/** Headings, list items and table rows answer a question less well than a sentence does. */
const FRAGMENT_WORTH = 0.6;
const SENTENCE_END = /[.!?。！？]["”’')\]]*$/u;
/** Sentences with more words pay for their length: what is quoted should be about the question, not just contain it. */
const FREE_WORDS = 12;

export function pickQuotes(sources: readonly Source[], wanted: readonly string[]): Quotes {
  const candidates = candidatesOf(sources);
  const rarity = rarityOf(candidates, wanted);
  for (const candidate of candidates) {
    candidate.score = scoreOf(candidate, rarity);
  }
  const best = candidates
    .filter((candidate) => candidate.score > 0)
    .sort((one, other) => other.score - one.score || one.place - other.place);
  const chosen: Candidate[] = [];
  for (const candidate of best) {
    const isRepeat = chosen.some((each) => each.text === candidate.text);
    if (!isRepeat && chosen.length < MOST_QUOTES && candidate.score >= WORTH * (chosen[0]?.score ?? 0)) {
      chosen.push(candidate);
    }
  }
  // What a file is called says what its sentences are about.
  const covered = new Set(chosen.flatMap((candidate) => [...candidate.words, ...wordsOf(candidate.source)]));
  return { quotes: grouped(chosen), coverage: wanted.length === 0 ? 0 : overlap(wanted, covered) / wanted.length };
}

/** The first sentences of a text, for a question without a subject of its own. */
export function firstQuotes(sources: readonly Source[]): readonly Quote[] {
  return sources.slice(0, MOST_QUOTES).flatMap(({ name, text }) =>
    sentencesOf(text)
      .filter((sentence) => SENTENCE_END.test(sentence))
      .slice(0, 1)
      .map((sentence) => ({ source: name, text: quotable(sentence) })),
  );
}

function candidatesOf(sources: readonly Source[]): readonly Candidate[] {
  const candidates: Candidate[] = [];
  for (const { name, text } of sources) {
    for (const sentence of sentencesOf(text)) {
      const place = candidates.length;
      candidates.push({ source: name, text: quotable(sentence), words: new Set(wordsOf(sentence)), place, score: 0 });
    }
  }
  return candidates;
}

function rarityOf(candidates: readonly Candidate[], wanted: readonly string[]): ReadonlyMap<string, number> {
  const rarity = new Map<string, number>();
  for (const word of wanted) {
    const count = candidates.reduce((sum, candidate) => sum + (candidate.words.has(word) ? 1 : 0), 0);
    rarity.set(word, count === 0 ? 0 : Math.log(1 + candidates.length / count));
  }
  return rarity;
}

function scoreOf(candidate: Candidate, rarity: ReadonlyMap<string, number>): number {
  let score = 0;
  for (const [word, weight] of rarity) {
    score += candidate.words.has(word) ? weight : 0;
  }
  const whole = SENTENCE_END.test(candidate.text) ? 1 : FRAGMENT_WORTH;
  return (whole * score) / (1 + Math.max(0, candidate.words.size - FREE_WORDS) / 40);
}

function grouped(chosen: readonly Candidate[]): readonly Quote[] {
  const order = [...new Set(chosen.map((candidate) => candidate.source))];
  return order.flatMap((source) => chosen.filter((candidate) => candidate.source === source));
}
