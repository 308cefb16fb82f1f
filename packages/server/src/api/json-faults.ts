/**
 * Where a JSON text would be read as something else than is written: a member given twice, of which the last would win,
 * and a number that has no room in a double (RFC 7493). The text has been parsed, so it is JSON and not nested deeply.
 */
import { wellFormed, type FieldError } from "@signalbox/contract";
import { jsonPointer } from "./json-pointer.ts";

/** More than so many are not told. */
const FAULT_COUNT_MAX = 16;
const BLANK = /[ \t\n\r]*/y;
const OTHER = /[^,\]}\s]+/y;

export function changedByReading(text: string): readonly FieldError[] {
  const reader = new Reader(text);
  reader.value([]);
  return reader.faults;
}

class Reader {
  readonly faults: FieldError[] = [];
  readonly #text: string;
  #at = 0;

  constructor(text: string) {
    this.#text = text;
  }

  value(path: readonly (string | number)[]): void {
    this.#take(BLANK);
    const first = this.#text[this.#at];
    if (first === "{") this.#object(path);
    else if (first === "[") this.#list(path);
    else if (first === '"') this.#string();
    else this.#number(this.#take(OTHER), path);
    this.#take(BLANK);
  }

  #object(path: readonly (string | number)[]): void {
    const seen = new Set<string>();
    this.#at += 1;
    this.#take(BLANK);
    while (this.#text[this.#at] === '"') {
      // A string of JSON, as it was found.
      const key = wellFormed(JSON.parse(this.#string()) as string);
      if (seen.has(key)) this.#tell([...path, key], "is given more than once");
      seen.add(key);
      this.#take(BLANK);
      this.#at += 1;
      this.value([...path, key]);
      if (this.#text[this.#at] === ",") this.#at += 1;
      this.#take(BLANK);
    }
    this.#at += 1;
  }

  #list(path: readonly (string | number)[]): void {
    this.#at += 1;
    this.#take(BLANK);
    for (let index = 0; this.#text[this.#at] !== "]" && this.#at < this.#text.length; index += 1) {
      this.value([...path, index]);
      if (this.#text[this.#at] === ",") this.#at += 1;
    }
    this.#at += 1;
  }

  #number(written: string, path: readonly (string | number)[]): void {
    const value = Number(written);
    if (Number.isNaN(value) || Math.abs(value) <= Number.MAX_SAFE_INTEGER) return;
    if (Number.isFinite(value) && digitsOf(written) === digitsOf(String(value))) return;
    this.#tell(path, "is a number that cannot be kept exactly; send it as a string");
  }

  #tell(path: readonly (string | number)[], detail: string): void {
    if (this.faults.length < FAULT_COUNT_MAX) this.faults.push({ pointer: jsonPointer(path), detail });
  }

  #string(): string {
    const from = this.#at;
    this.#at += 1;
    while (this.#at < this.#text.length && this.#text[this.#at] !== '"') {
      this.#at += this.#text[this.#at] === "\\" ? 2 : 1;
    }
    this.#at += 1;
    return this.#text.slice(from, this.#at);
  }

  #take(what: RegExp): string {
    what.lastIndex = this.#at;
    const [found = ""] = what.exec(this.#text) ?? [];
    this.#at += found.length;
    return found;
  }
}

/** The digits that matter, without the place of the point: two numbers of one double differ in nothing else. */
function digitsOf(written: string): string {
  const [mantissa = ""] = written.toLowerCase().split("e");
  return mantissa.replaceAll(/[-+.]/g, "").replace(/^0+/, "").replace(/0+$/, "");
}
