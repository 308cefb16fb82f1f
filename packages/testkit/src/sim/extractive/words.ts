/** Words of any language, made comparable. Scripts that put no spaces between words are cut into pairs of characters. */
const RUNS = /[\p{L}\p{N}\p{M}]+/gu;
const UNSPACED = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}\p{Script=Lao}\p{Script=Khmer}]/u;

/** Longer runs are not words (encoded data, minified code) and would only cost time. */
const LONGEST_WORD = 64;

export function wordsOf(text: string): readonly string[] {
  const words: string[] = [];
  for (const run of text.normalize("NFKC").toLowerCase().match(RUNS) ?? []) {
    if (run.length > LONGEST_WORD) {
      continue;
    }
    if (UNSPACED.test(run)) {
      words.push(...pairsOf(run));
    } else {
      words.push(stemOf(run));
    }
  }
  return words;
}

function pairsOf(run: string): readonly string[] {
  const points = Array.from(run);
  return points.length < 2 ? points : points.slice(1).map((point, place) => `${points[place] ?? ""}${point}`);
}

/** Brings "leases", "leased" and "lease" together; nothing more is asked of it. */
function stemOf(word: string): string {
  if (word.length > 5 && word.endsWith("ing")) {
    return word.slice(0, -3);
  }
  if (word.length > 4 && (word.endsWith("ed") || word.endsWith("es"))) {
    return word.slice(0, -2);
  }
  if (word.length > 3 && /[^s]s$/.test(word)) {
    return word.slice(0, -1);
  }
  return word.length > 4 && word.endsWith("e") ? word.slice(0, -1) : word;
}

/** Words that carry no subject, stemmed like the others. */
const EMPTY_WORDS: ReadonlySet<string> = new Set(
  wordsOf(
    `a an and any are as at be been but by can could did do does doing done for from get give had has have he her here him
     his how i if in into is it its just know let like make may me might mine more most must my no not of off on one only
     or other our out over please said say says shall she should so some such tell than that the their them then there
     these they this those to too under until up us use very was we were what when where which while who whom whose why
     will with would yes you your yours about again also because before after between both each few own same
     long much many happen always never very really find show list read look explain describe summarise summarize answer question document documents file files folder
     according mention hi hello hey thanks thank`,
  ),
);

/** The words of a text that say what it is about, each once, in order. */
export function subjectWords(text: string): readonly string[] {
  return [...new Set(wordsOf(text))].filter(
    (word) => !EMPTY_WORDS.has(word) && (word.length > 1 || /\p{N}/u.test(word)),
  );
}

/** How many of `wanted` occur among `words`. */
export function overlap(wanted: readonly string[], words: ReadonlySet<string>): number {
  let count = 0;
  for (const word of wanted) {
    count += words.has(word) ? 1 : 0;
  }
  return count;
}
