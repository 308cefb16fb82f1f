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

export function foldText(text: string): FoldedText {
  const words = ` ${foldWords(text)} `;
  return { words, run: words.replaceAll(" ", "") };
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
  return UNSPACED.test(words) ? text.run.includes(words.replaceAll(" ", "")) : text.words.includes(` ${words} `);
}

/** Whether the value was taken out of the text, also out of the middle of a word. */
export function holdsPiece(text: FoldedText, words: string): boolean {
  const run = words.replaceAll(" ", "");
  return run.length >= PIECE_CHARS_MIN ? text.run.includes(run) : holdsWords(text, words);
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
