/**
 * Where the values of a call's arguments come from. A value is grounded where the whole of it stands; what the user wrote
 * counts before what a tool said, since both may say it and only one of them may ask for effects.
 */
import type { Origin } from "@signalbox/contract";
import type { ArgumentOrigin } from "./decision.ts";
import { destinationsIn } from "./destination.ts";
import type { CallToJudge, RunFacts, Source } from "./facts.ts";
import { isConstantOf, leavesOf, schemaAt, type Leaf } from "./json-values.ts";
import {
  dateForms,
  foldedSource,
  foldWords,
  holdsPiece,
  holdsWords,
  joinTexts,
  type FoldedText,
} from "./text-match.ts";

/** As `ArgumentOrigin`, and whether the value is too common to show that somebody meant it: `5`, or a day. */
export interface PlacedValue extends ArgumentOrigin {
  readonly isWeak: boolean;
}

const WEAK_CHARS = 3;

export function placeArguments(call: CallToJudge, facts: RunFacts): readonly PlacedValue[] {
  const { arguments: given, tool } = call;
  return leavesOf(given, tool.inputSchema).flatMap((leaf) => placeLeaf(leaf, call, facts));
}

function placeLeaf(leaf: Leaf, call: CallToJudge, facts: RunFacts): readonly PlacedValue[] {
  const schema = schemaAt(call.tool.inputSchema, leaf.at);
  const { at, value } = leaf;
  if (isSilent(value) || isConstantOf(schema, value)) {
    return [{ at, origin: "constant", tool: null, isDestination: false, isWeak: true }];
  }
  const { isWhole, links } = destinationsIn(value, schema);
  const placed = { at, ...originOf(String(value), facts), isDestination: isWhole, isWeak: isWeak(value) };
  // A text may come from the user as a whole and a link in it is then theirs as well.
  const within = links.map((link) => ({ at, ...originOf(link, facts), isDestination: true, isWeak: false }));
  return [placed, ...within];
}

/** Values that say nothing by themselves. */
function isSilent(value: Leaf["value"]): boolean {
  return value === null || typeof value === "boolean" || (typeof value === "string" && value.trim() === "");
}

function isWeak(value: Leaf["value"]): boolean {
  if (typeof value !== "string") return true;
  const date = dateForms(value);
  return date === null ? foldWords(value).length < WEAK_CHARS : date.length === 1;
}

type Found = Pick<ArgumentOrigin, "origin" | "tool">;

function originOf(value: string, facts: RunFacts): Found {
  const wanted = formsOf(value);
  for (const group of groupsOf(facts.sources)) {
    if (!isFoundIn(group, wanted)) continue;
    // A date whose parts stand in two of them is in none by itself.
    const source = group.sources.find((each) => isFoundIn({ ...foldedSource(each), isTold: group.isTold }, wanted));
    return { origin: group.origin, tool: source?.tool ?? null };
  }
  return { origin: facts.areSourcesCut ? "tool" : "model", tool: null };
}

/** Every text of one origin: looked through at once, and one by one only where something was found. */
interface Group extends FoldedText {
  readonly origin: Origin;
  readonly isTold: boolean;
  readonly sources: readonly Source[];
}

const grouped = new WeakMap<readonly Source[], readonly Group[]>();

/** What people said comes first. */
function groupsOf(sources: readonly Source[]): readonly Group[] {
  const before = grouped.get(sources);
  if (before !== undefined) return before;
  const groups = ORIGINS_IN_ORDER.flatMap((origin): readonly Group[] => {
    const of = sources.filter((each) => originOfSource(each) === origin);
    if (of.length === 0) return [];
    const isTold = origin === "user" || origin === "system";
    return [{ origin, isTold, sources: of, ...joinTexts(of.map(foldedSource)) }];
  });
  grouped.set(sources, groups);
  return groups;
}

const ORIGINS_IN_ORDER = ["user", "system", "trusted_tool", "tool", "passage"] as const;

function originOfSource(source: Source): Origin {
  return source.kind === "tool" && source.isTrusted ? "trusted_tool" : source.kind;
}

interface Wanted {
  readonly words: string;
  readonly others: readonly string[];
  readonly date: readonly (readonly string[])[] | null;
  /** Hidden in other letters; looked for in what tools said only. */
  readonly decoded: readonly string[];
}

function formsOf(value: string): Wanted {
  const words = foldWords(value);
  const number = /^-?\d+(\.\d+)?$/.test(value) ? Number(value) : null;
  const others = number === null || !Number.isFinite(number) ? [] : [foldWords(number.toFixed(2))];
  return { words, others, date: dateForms(value), decoded: number === null ? decodedFrom(value) : [] };
}

function isFoundIn(text: FoldedText & { readonly isTold: boolean }, wanted: Wanted): boolean {
  const { isTold } = text;
  const { words, others, date, decoded } = wanted;
  if (date !== null) return date.every((forms) => forms.some((form) => holdsWords(text, form)));
  if (isTold) return holdsWords(text, words) || others.some((each) => holdsWords(text, each));
  if (holdsPiece(text, words) || others.some((each) => holdsWords(text, each))) return true;
  return decoded.some((each) => holdsPiece(text, each)) || sharesPhrase(text.words, words);
}

const PHRASE_WORDS = 5;
const PHRASE_LOOKS_MAX = 400;

/** Whether several words in a row were copied: who quotes a tool's text in a longer one passes it on. */
function sharesPhrase(text: string, words: string): boolean {
  const each = words.split(" ");
  if (each.length <= PHRASE_WORDS) return false;
  const last = Math.min(each.length - PHRASE_WORDS, PHRASE_LOOKS_MAX);
  for (let from = 0; from <= last; from += 1) {
    if (text.includes(` ${each.slice(from, from + PHRASE_WORDS).join(" ")} `)) return true;
  }
  return false;
}

const BASE64 = /^[A-Za-z0-9+/_-]{12,8192}={0,2}$/;
const HEX = /^(?:[0-9a-f]{2}){6,4096}$/i;
const PERCENT = /%[0-9a-f]{2}/i;

/** What a value may be another spelling of. */
function decodedFrom(value: string): readonly string[] {
  const text = value.trim();
  const decoded: string[] = [];
  if (HEX.test(text)) decoded.push(foldWords(bytesToText(text.match(/../g)?.map((pair) => parseInt(pair, 16)) ?? [])));
  else if (BASE64.test(text)) decoded.push(foldWords(bytesToText(base64Bytes(text))));
  if (PERCENT.test(text)) {
    try {
      decoded.push(foldWords(decodeURIComponent(text)));
    } catch {
      // No spelling of anything.
    }
  }
  return decoded.filter((each) => each !== "");
}

const BASE64_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

function base64Bytes(text: string): readonly number[] {
  const bytes: number[] = [];
  let bits = 0;
  let held = 0;
  for (const letter of text.replaceAll("-", "+").replaceAll("_", "/").replaceAll("=", "")) {
    bits = ((bits << 6) | BASE64_LETTERS.indexOf(letter)) & 0xffff;
    held += 6;
    if (held >= 8) {
      held -= 8;
      bytes.push((bits >> held) & 0xff);
    }
  }
  return bytes;
}

/** Letters of the Latin alphabet are enough to recognise a secret; others become question marks, which fold away. */
function bytesToText(bytes: readonly number[]): string {
  return bytes.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : "?")).join("");
}
