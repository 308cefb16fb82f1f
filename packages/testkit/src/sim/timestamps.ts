/** Tokens that carry the time they were written, so that a reader can tell how long each was on its way. */

const STAMP = /@(\d{13}\.\d{3}) /g;

/** Milliseconds since the epoch with three decimals; comparable between processes of one machine. */
export function nowMs(): number {
  return performance.timeOrigin + performance.now();
}

/** One token of nineteen characters. */
export function stampToken(): string {
  return `@${nowMs().toFixed(3)} `;
}

/** The write times of all tokens in a text, in order, in milliseconds since the epoch. */
export function tokenTimes(text: string): readonly number[] {
  return [...text.matchAll(STAMP)].map((match) => Number(match[1]));
}
