/** Checks a script that came as JSON. A field nobody knows is refused: a script that is half understood proves nothing. */
import { PlatformError } from "@signalbox/contract";
import { isObject, type JsonObject } from "./json.ts";
import type { NamedScript, ScriptedAnswer } from "./script.ts";

type Kind = "text" | "count" | "flag" | "object" | "any" | "break" | "parts" | "chunks" | "reason";
type Fields = Readonly<Record<string, Kind>>;

const BREAKABLE: Fields = { tokenDelayMs: "count", break: "break", breakAfterTokens: "count" };

/** Each form by the field that tells it from the others. */
const PARTS: ReadonlyMap<string, Fields> = new Map([
  ["text", { ...BREAKABLE, text: "text" }],
  ["tokens", { ...BREAKABLE, tokens: "count", timestamps: "flag" }],
  ["thinking", { ...BREAKABLE, thinking: "text", signature: "text" }],
  ["tool", { ...BREAKABLE, tool: "text", input: "object", id: "text", cutJsonAt: "count" }],
  ["waitMs", { waitMs: "count" }],
  ["break", { break: "break" }],
]);

const ANSWERS: ReadonlyMap<string, Fields> = new Map([
  [
    "parts",
    {
      parts: "parts",
      stop: "text",
      usage: "object",
      model: "text",
      firstTokenDelayMs: "count",
      tokenDelayMs: "count",
    },
  ],
  ["status", { status: "count", headers: "object", error: "object", body: "any", waitMs: "count" }],
  ["raw", { raw: "chunks" }],
  ["noAnswer", { noAnswer: "reason" }],
  ["extractive", { extractive: "flag" }],
]);

export interface ScriptForm {
  /** Answers for every request; null when the file only holds named scripts. */
  readonly script: readonly ScriptedAnswer[] | null;
  readonly scripts: Readonly<Record<string, NamedScript>>;
}

/** A list of answers, or `{script: […], scripts: {name: […] | {answers: […], by}}}`. Ends with `invalid_request`. */
export function readScriptForm(value: unknown): ScriptForm {
  if (Array.isArray(value)) {
    return { script: readAnswers(value, "script"), scripts: {} };
  }
  const form = known(value, { script: "any", scripts: "object" }, "script file");
  const scripts = isObject(form.scripts) ? form.scripts : {};
  return {
    script: form.script === undefined ? null : readAnswers(form.script, "script"),
    scripts: Object.fromEntries(
      Object.entries(scripts).map(([name, each]) => [name, readNamed(each, `scripts.${name}`)]),
    ),
  };
}

function readNamed(value: unknown, where: string): NamedScript {
  if (Array.isArray(value)) {
    return { answers: readAnswers(value, where) };
  }
  const named = known(value, { answers: "any", by: "text" }, where);
  if (named.by !== undefined && named.by !== "reply" && named.by !== "request") {
    throw wrong(`${where}.by`, "is neither reply nor request");
  }
  return {
    answers: readAnswers(named.answers, `${where}.answers`),
    ...(named.by === undefined ? {} : { by: named.by }),
  };
}

function readAnswers(value: unknown, where: string): readonly ScriptedAnswer[] {
  if (!Array.isArray(value) || value.length === 0) {
    throw wrong(where, "is no list of answers");
  }
  // Each entry has just been checked against the forms of an answer, which the compiler cannot follow.
  return value.map((each, place) => readForm(each, ANSWERS, `${where}.${place}`) as unknown as ScriptedAnswer);
}

function readForm(value: unknown, forms: ReadonlyMap<string, Fields>, where: string): JsonObject {
  for (const [field, fields] of forms) {
    if (isObject(value) && value[field] !== undefined) {
      return known(value, fields, where);
    }
  }
  throw wrong(where, `has none of the fields ${[...forms.keys()].join(", ")}`);
}

function known(value: unknown, fields: Fields, where: string): JsonObject {
  if (!isObject(value)) {
    throw wrong(where, "is no object");
  }
  for (const [name, each] of Object.entries(value)) {
    const kind = Object.hasOwn(fields, name) ? fields[name] : undefined;
    if (kind === undefined) {
      throw wrong(`${where}.${name}`, "is no field of a script");
    }
    checkKind(each, kind, `${where}.${name}`);
  }
  return value;
}

function checkKind(value: unknown, kind: Kind, where: string): void {
  switch (kind) {
    case "text":
      return must(typeof value === "string", where, "is no text");
    case "count":
      return must(Number.isInteger(value) && Number(value) >= 0, where, "is no whole number");
    case "flag":
      return must(typeof value === "boolean", where, "is neither true nor false");
    case "object":
      return must(isObject(value), where, "is no object");
    case "reason":
      return must(value === "hang" || value === "cut", where, "is neither hang nor cut");
    case "break": {
      const isWord = value === "cut" || value === "cut_inside_event" || value === "hang";
      return must(isWord || (isObject(value) && isObject(value.error)), where, "is no way to break");
    }
    case "parts":
      must(Array.isArray(value), where, "is no list of parts");
      return Array.isArray(value)
        ? value.forEach((each, place) => readForm(each, PARTS, `${where}.${place}`))
        : undefined;
    case "chunks":
      return must(isObject(value) && Array.isArray(value.chunks), where, "has no list of chunks");
    case "any":
      return undefined;
  }
}

function must(holds: boolean, where: string, otherwise: string): void {
  if (!holds) {
    throw wrong(where, otherwise);
  }
}

function wrong(where: string, why: string): PlatformError {
  return new PlatformError("invalid_request", `${where} ${why}.`);
}
