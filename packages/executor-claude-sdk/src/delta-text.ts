import { wellFormed } from "@signalbox/contract";

/**
 * Pieces of a text as they stream in, made well-formed without breaking a character that two pieces share: the first
 * half of a surrogate pair is kept back until the next piece shows whether the other half follows.
 */
export class DeltaText {
  #text = "";
  #held = "";

  /** What was given out so far. */
  get text(): string {
    return this.#text;
  }

  /** The part that may be shown now; empty when there is nothing new. */
  push(piece: string): string {
    const joined = this.#held + piece;
    const last = joined.charCodeAt(joined.length - 1);
    const isHalf = last >= 0xd800 && last <= 0xdbff;
    this.#held = isHalf ? joined.slice(-1) : "";
    return this.#give(isHalf ? joined.slice(0, -1) : joined);
  }

  /** Gives out what was kept back: no other half will come. */
  end(): string {
    const rest = this.#held;
    this.#held = "";
    return this.#give(rest);
  }

  #give(piece: string): string {
    const clean = wellFormed(piece);
    this.#text += clean;
    return clean;
  }
}
