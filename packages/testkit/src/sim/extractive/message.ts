/**
 * Takes a user message apart: what the person asks, and what was put beside it (passages, facts, reminders). Whoever
 * composes a turn places such context inside the user message, as elements or as a block of JSON.
 */
import { entryText, type Entry } from "../conversation.ts";
import { isObject, type JsonObject, objectOf, parseJson, stringOf } from "../json.ts";
import { attributeOf, type Element, takeElements } from "./elements.ts";

/** A text that can be quoted, and what to call it. */
export interface Source {
  readonly name: string;
  readonly text: string;
}

export interface Message {
  readonly question: string;
  readonly passages: readonly Source[];
}

/** Never part of the question and never quoted. */
const IGNORED: ReadonlySet<string> = new Set(["system-reminder", "reminder", "instructions", "env", "environment"]);
const CONTEXT: ReadonlySet<string> = new Set(
  `context passages passage documents document doc sources source files file excerpts excerpt snippet chunk facts fact
   results result knowledge`.split(/\s+/),
);
const NAME_ATTRIBUTES = ["source", "title", "name", "file", "path", "id", "ref"] as const;
const TEXT_FIELDS = ["text", "content", "body", "value", "excerpt"] as const;
const NAME_FIELDS = ["source", "title", "name", "file", "path", "id"] as const;
const LIST_FIELDS = ["passages", "context", "facts", "documents", "sources"] as const;

/** A message longer than this holds pasted text; the question is looked for at its end and its beginning. */
const LONG_MESSAGE = 1_500;

export function readMessage(entry: Entry): Message {
  const passages: Source[] = [];
  const questions: string[] = [];
  for (const part of entry.texts) {
    const { elements, rest } = takeElements(part, (name) => IGNORED.has(name) || isContext(name));
    passages.push(...elements.flatMap(passagesOf));
    const json = contextJson(rest);
    if (json !== null) {
      passages.push(...passagesOfJson(json));
    } else if (rest.trim() !== "") {
      questions.push(rest.trim());
    }
  }
  const whole = questions.join("\n\n");
  if (whole.length <= LONG_MESSAGE) {
    return { question: whole === "" ? entryText(entry).trim().slice(0, LONG_MESSAGE) : whole, passages };
  }
  return { question: questionOfLong(whole), passages: [...passages, { name: "your message", text: whole }] };
}

function isContext(name: string): boolean {
  return CONTEXT.has(name) || name.startsWith("signalbox");
}

function passagesOf(element: Element): readonly Source[] {
  if (IGNORED.has(element.name)) {
    return [];
  }
  const inner = takeElements(element.body, (name) => IGNORED.has(name) || isContext(name));
  const own = attributeOf(element, NAME_ATTRIBUTES);
  const nested = inner.elements.flatMap(passagesOf);
  const json = contextJson(inner.rest);
  if (json !== null) {
    return [...nested, ...passagesOfJson(json)];
  }
  const text = inner.rest.trim();
  return text === "" || (nested.length > 0 && own === null)
    ? nested
    : [...nested, { name: own ?? "the passage", text }];
}

/** A JSON object that speaks about context, alone in its text. */
function contextJson(text: string): JsonObject | null {
  const trimmed = text.trim();
  if (!trimmed.startsWith("{") || !trimmed.endsWith("}")) {
    return null;
  }
  const value = parseJson(trimmed);
  return isObject(value) && LIST_FIELDS.some((field) => Array.isArray(value[field])) ? value : null;
}

function passagesOfJson(value: JsonObject): readonly Source[] {
  return LIST_FIELDS.flatMap((field) => {
    const list: readonly unknown[] = Array.isArray(value[field]) ? value[field] : [];
    return list.flatMap((item) => sourceOf(item, field));
  });
}

function sourceOf(item: unknown, field: string): readonly Source[] {
  const name = `the ${field.replace(/s$/, "")}`;
  if (typeof item === "string") {
    return [{ name, text: item }];
  }
  const fields = objectOf(item);
  const text = firstString(fields, TEXT_FIELDS);
  return text === "" ? [] : [{ name: firstString(fields, NAME_FIELDS) || name, text }];
}

function firstString(item: JsonObject, fields: readonly string[]): string {
  return fields.map((field) => stringOf(item[field])).find((text) => text !== "") ?? "";
}

function questionOfLong(text: string): string {
  const paragraphs = text.split(/\n\s*\n/).map((paragraph) => paragraph.trim());
  const ends = [paragraphs.at(-1) ?? "", paragraphs[0] ?? ""];
  const asked = ends.find((paragraph) => paragraph.includes("?") && paragraph.length <= LONG_MESSAGE);
  return asked ?? (ends[0] ?? "").slice(-LONG_MESSAGE);
}
