/**
 * The elements of lists in a graph's state, each kept once in the transcript, by its content. A list in a checkpoint is
 * then a few runs of elements that lie next to each other, so a checkpoint stays small however long the list is.
 */
import { createHash } from "node:crypto";
import { PlatformError } from "@signalbox/contract";
import type { TranscriptEntry } from "@signalbox/worker";
import { strictJson } from "./strict-serializer.ts";

/** Elements that follow each other in the transcript: the first one's entry, and how many. */
export type ItemRun = readonly [entryId: string, count: number];

export interface ItemList {
  readonly runs: readonly ItemRun[];
  /** Over the hashes of all elements in order: says whether a list read back is the list that was written. */
  readonly digest: string;
}

const HASH_CHARS = 22;

export class ItemStore {
  readonly #stream: string;
  readonly #salt: string;
  readonly #entryIds: string[] = [];
  readonly #values: unknown[] = [];
  readonly #placeOfHash = new Map<string, number>();
  readonly #placeOfEntry = new Map<string, number>();
  readonly #hashOf = new WeakMap<object, string>();
  /** Items below this place are durable; the texts of the others wait to be written. */
  #durableCount = 0;
  #waiting: string[] = [];

  /** `salt` keeps ids of this opening apart from those an earlier one wrote and lost. */
  constructor(stream: string, salt: string) {
    this.#stream = stream;
    this.#salt = salt;
  }

  /** Takes an item as it was loaded. Throws `transcript_corrupt` when its content is not what its id says. */
  load(entry: TranscriptEntry): void {
    const text = Buffer.from(entry.body).toString("utf8");
    const hash = hashOf(text);
    if (!entry.entryId.startsWith(hash)) {
      throw new PlatformError("transcript_corrupt", "A message of the transcript is not what its id says.");
    }
    // An element of a list is an object: only such were ever written.
    const value = JSON.parse(text) as object;
    this.#hashOf.set(value, hash);
    this.#keep(hash, entry.entryId, value);
    this.#durableCount = this.#values.length;
  }

  /** Turns a list into runs, and keeps the elements that are not in the transcript yet until they are written. */
  encode(list: readonly object[]): ItemList {
    const runs: [string, number][] = [];
    let hashes = "";
    let next = -1;
    for (const value of list) {
      const place = this.#place(value);
      hashes += this.#hashOf.get(value) ?? "";
      const run = runs.at(-1);
      if (run !== undefined && place === next) {
        run[1] += 1;
      } else {
        runs.push([this.#entryIds[place] ?? "", 1]);
      }
      next = place + 1;
    }
    return { runs, digest: hashOf(hashes) };
  }

  /** Throws `transcript_corrupt` when an element is missing or another stands in its place. */
  decode(list: ItemList): unknown[] {
    const values: unknown[] = [];
    let hashes = "";
    for (const [entryId, count] of list.runs) {
      const first = this.#placeOfEntry.get(entryId) ?? -1;
      if (first < 0 || first + count > this.#values.length) {
        throw new PlatformError("transcript_corrupt", "The transcript lacks a message that its checkpoint refers to.");
      }
      for (const value of this.#values.slice(first, first + count)) {
        // Kept values are objects with a known hash.
        hashes += this.#hashOf.get(value as object) ?? "";
        values.push(value);
      }
    }
    if (hashOf(hashes) !== list.digest) {
      throw new PlatformError("transcript_corrupt", "The messages of the transcript are not those of its checkpoint.");
    }
    return values;
  }

  /** What has to be written before a checkpoint that refers to it. */
  pending(): readonly TranscriptEntry[] {
    return this.#waiting.map((text, at) => ({
      kind: "item",
      entryId: this.#entryIds[this.#durableCount + at] ?? "",
      stream: this.#stream,
      body: Buffer.from(text),
    }));
  }

  /** All of what was pending is durable now. */
  written(): void {
    this.#waiting = [];
    this.#durableCount = this.#values.length;
  }

  #place(value: object): number {
    let hash = this.#hashOf.get(value);
    let text: string | null = null;
    if (hash === undefined) {
      text = strictJson(value);
      hash = hashOf(text);
      this.#hashOf.set(value, hash);
    }
    const known = this.#placeOfHash.get(hash);
    if (known !== undefined) {
      return known;
    }
    this.#waiting.push(text ?? strictJson(value));
    return this.#keep(hash, `${hash}.${this.#salt}`, value);
  }

  #keep(hash: string, entryId: string, value: object): number {
    const place = this.#values.length;
    this.#values.push(value);
    this.#entryIds.push(entryId);
    this.#placeOfHash.set(hash, place);
    this.#placeOfEntry.set(entryId, place);
    return place;
  }
}

/** Whether a channel's value is a list whose elements are worth keeping apart. */
export function isItemList(value: unknown): value is readonly object[] {
  return Array.isArray(value) && value.length > 0 && value.every(isPlainObject);
}

function isPlainObject(value: unknown): boolean {
  if (typeof value !== "object" || value === null) {
    return false;
  }
  const kind: unknown = Object.getPrototypeOf(value);
  return kind === Object.prototype || kind === null;
}

function hashOf(text: string): string {
  return createHash("sha256").update(text).digest("base64url").slice(0, HASH_CHARS);
}
