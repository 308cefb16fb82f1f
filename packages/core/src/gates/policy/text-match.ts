/**
 * Whether a value stands in a text. Both are folded first (case, widths, punctuation), so that `Dental check-up` is found
 * in `the dental check up`. Folded texts are kept with their source: a text is folded once, however many calls are judged.
 */
import type { Source } from "./facts.ts";

export interface FoldedText {
  /** Words with one blank before and after each. */
  readonly words: string;
  /** The same without blanks, for values that were cut out of the middle of a word. */
  readonly run: string;
  /** Every word, and one bit for every three letters in a row: most of what is looked for is not there, and that is cheap to see. */
  readonly vocabulary: ReadonlySet<string>;
  readonly trigrams: Uint8Array;
}

const SEPARATORS = /[^\p{L}\p{N}]+/gu;
const THOUSANDS = /(?<=\d),(?=\d{3}(?!\d))/g;
/** A point within a number stays, so that 1200 does not stand in 1200.50. */
const POINT = /(?<=\d)\.(?=\d)/g;
/** Scripts that are written without blanks between words. */
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}]/u;

const known = new WeakMap<Source, FoldedText>();

export function foldedSource(source: Source): FoldedText {
  const before = known.get(source);
  if (before !== undefined) return before;
  const folded = foldText(source.text);
  known.set(source, folded);
  return folded;
}

function foldText(text: string): FoldedText {
  const words = ` ${foldWords(text)} `;
  const run = words.replaceAll(" ", "");
  const trigrams = new Uint8Array(TRIGRAM_BYTES);
  for (let at = 0; at + 2 < run.length; at += 1) {
    const bit = trigramAt(run, at);
    trigrams[bit >> 3] = (trigrams[bit >> 3] ?? 0) | (1 << (bit & 7));
  }
  return { words, run, vocabulary: new Set(words.split(" ")), trigrams };
}

/** Several texts as one, apart from each other. */
export function joinTexts(texts: readonly FoldedText[]): FoldedText {
  const [only] = texts;
  if (only !== undefined && texts.length === 1) return only;
  const trigrams = new Uint8Array(TRIGRAM_BYTES);
  for (const text of texts) text.trigrams.forEach((bits, at) => (trigrams[at] = (trigrams[at] ?? 0) | bits));
  return {
    words: texts.map((each) => each.words).join("\n"),
    run: texts.map((each) => each.run).join("\n"),
    vocabulary: new Set(texts.flatMap((each) => [...each.vocabulary])),
    trigrams,
  };
}

const TRIGRAM_BYTES = 8_192;

function trigramAt(run: string, at: number): number {
  return (run.charCodeAt(at) * 961 + run.charCodeAt(at + 1) * 31 + run.charCodeAt(at + 2)) & 0xffff;
}

function mayHold(trigrams: Uint8Array, run: string): boolean {
  for (let at = 0; at + 2 < run.length; at += 1) {
    const bit = trigramAt(run, at);
    if (((trigrams[bit >> 3] ?? 0) & (1 << (bit & 7))) === 0) return false;
  }
  return true;
}

/** Words of a value, one blank between them; empty when there are none. */
export function foldWords(text: string): string {
  return text
    .normalize("NFKC")
    .toLowerCase()
    .replace(THOUSANDS, "")
    .replace(POINT, "p")
    .replace(SEPARATORS, " ")
    .trim();
}

/** Whether whole words of `text` are those of the value. */
export function holdsWords(text: FoldedText, words: string): boolean {
  if (words === "") return false;
  if (UNSPACED.test(words)) return text.run.includes(words.replaceAll(" ", ""));
  const blank = words.indexOf(" ");
  if (blank < 0) return text.vocabulary.has(words);
  return text.vocabulary.has(words.slice(0, blank)) && text.words.includes(` ${words} `);
}

/** Whether the value was taken out of the text, also out of the middle of a word. */
export function holdsPiece(text: FoldedText, words: string): boolean {
  const run = words.replaceAll(" ", "");
  if (run.length < PIECE_CHARS_MIN) return holdsWords(text, words);
  return mayHold(text.trigrams, run) && text.run.includes(run);
}

/** Shorter ones stand in any text by accident. */
const PIECE_CHARS_MIN = 6;

const MONTHS = "january february march april may june july august september october november december".split(" ");
const DATE = /^(\d{4})-(\d{2})-(\d{2})(?:[T ](\d{2}):(\d{2})(?::00)?(?:\.0+)?Z?)?$/;

/**
 * A date, with the time when it has one, as people may have written its parts; `null` for what is none. A date is
 * in a text when one form of each part is.
 */
export function dateForms(value: string): readonly (readonly string[])[] | null {
  const [, year = "", month = "", day = "", hour, minute] = DATE.exec(value) ?? [];
  const name = MONTHS[Number(month) - 1];
  if (name === undefined) return null;
  const date = dayForms({ year, name, month, day: Number(day) });
  return hour === undefined || minute === undefined ? [date] : [date, hourForms(Number(hour), minute)];
}

function dayForms(date: { year: string; name: string; month: string; day: number }): readonly string[] {
  const { year, name, month, day } = date;
  const two = String(day).padStart(2, "0");
  const days = [String(day), `${day}${ordinal(day)}`];
  const months = [name, name.slice(0, 3)];
  const spoken = months.flatMap((each) => days.flatMap((of) => [`${each} ${of}`, `${of} ${each}`, `${of} of ${each}`]));
  return [
    `${year} ${month} ${two}`,
    `${two}p${month}p${year}`,
    `${two} ${month} ${year}`,
    `${month} ${two} ${year}`,
    ...spoken,
  ];
}

function hourForms(hour: number, minute: string): readonly string[] {
  const twelve = hour % 12 === 0 ? 12 : hour % 12;
  const half = hour < 12 ? "am" : "pm";
  const whole = minute === "00" ? [`${twelve}${half}`, `${twelve} ${half}`] : [];
  return [
    `${String(hour).padStart(2, "0")} ${minute}`,
    `${hour}p${minute}`,
    `${hour} ${minute}`,
    `${twelve} ${minute} ${half}`,
    ...whole,
  ];
}

function ordinal(day: number): string {
  if (day >= 11 && day <= 13) return "th";
  return ["th", "st", "nd", "rd"][day % 10] ?? "th";
}
