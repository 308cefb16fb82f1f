/**
 * The stated token estimate of `sim`, the same for what it reads and for what it writes: a token is a run of at most
 * twelve code points without white space together with the white space behind it. A streamed token is one such piece,
 * so the number of deltas of an answer is its output token count.
 */
const TOKEN = /\S{1,12}\s*|\s+/gu;

/** Images and documents have no text to count; each is taken for this many tokens. */
export const ATTACHMENT_TOKENS = 1_000;

/** The pieces concatenate to exactly the text. */
export function splitTokens(text: string): readonly string[] {
  return text.match(TOKEN) ?? [];
}

export function countTokens(text: string): number {
  let count = 0;
  for (let match = nextMatch(text, 0); match > 0; match = nextMatch(text, match)) {
    count += 1;
  }
  return count;
}

/** Where the token that begins at `from` ends, 0 at the end of the text. Allocates nothing: tool results can be huge. */
function nextMatch(text: string, from: number): number {
  TOKEN.lastIndex = from;
  return TOKEN.test(text) ? TOKEN.lastIndex : 0;
}
