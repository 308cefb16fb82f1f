/**
 * Arguments against the schema that a tool's server declared, as it declared it. A schema is a stranger's text: what it
 * may cost is bounded, nothing is fetched for it, and what cannot be understood lets nothing through.
 */
import { createContext, Script } from "node:vm";
import { clip } from "@signalbox/contract";
import { Ajv, type AnySchemaObject, type ErrorObject, type Options, type ValidateFunction } from "ajv";
// oxlint-disable-next-line no-restricted-imports -- ajv keeps the dialect of 2020 under a path of its own.
import { Ajv2020 } from "ajv/dist/2020.js";
import { isObject, type Json } from "./mcp-protocol.ts";

export interface CheckedSchema {
  /** Two schemas under one hash are the same schema. */
  readonly definitionHash: string;
  readonly schema: Json;
}

export interface ArgumentProblem {
  /** JSON pointer into the arguments; empty for the whole. */
  readonly pointer: string;
  readonly detail: string;
}

const DEPTH_MAX = 64;
const NODES_MAX = 20_000;
const CHARS_MAX = 64 * 1024;
const COMPILED_MAX = 500;
const PROBLEMS_MAX = 10;
const DETAIL_CHARS_MAX = 300;
/** A pattern that has not matched by then would go on for ever. */
const PATTERN_MS = 50;
const OLDER_DRAFT = /draft-0[3-7]/;

type Compiled = { readonly validate: ValidateFunction } | { readonly unusable: string };

/** Compiled schemas of one process, the ones used last. */
export class ArgumentSchemas {
  readonly #compiled = new Map<string, Compiled>();

  /** Why nothing can be checked against this schema, or `null`. */
  unusable({ definitionHash, schema }: CheckedSchema): string | null {
    const compiled = this.#compile(definitionHash, schema);
    return "unusable" in compiled ? compiled.unusable : null;
  }

  /** What is wrong with `value`; empty when it fits. A schema that cannot be used fits nothing. */
  check({ definitionHash, schema }: CheckedSchema, value: unknown): readonly ArgumentProblem[] {
    const compiled = this.#compile(definitionHash, schema);
    if ("unusable" in compiled) {
      return [{ pointer: "", detail: `The tool's schema cannot be used: ${compiled.unusable}` }];
    }
    try {
      if (compiled.validate(value)) return [];
    } catch (thrown) {
      const detail = thrown instanceof Error ? thrown.message : "cannot be checked";
      return [{ pointer: "", detail: clip(detail, DETAIL_CHARS_MAX) }];
    }
    return problemsOf(compiled.validate.errors ?? []);
  }

  #compile(hash: string, schema: Json): Compiled {
    const known = this.#compiled.get(hash);
    // Set anew, so that what is used stays.
    this.#compiled.delete(hash);
    const compiled = known ?? compile(schema);
    if (this.#compiled.size >= COMPILED_MAX) {
      for (const oldest of this.#compiled.keys()) {
        this.#compiled.delete(oldest);
        break;
      }
    }
    this.#compiled.set(hash, compiled);
    return compiled;
  }
}

/** The problems as one sentence for whoever made the arguments. */
export function argumentSentence(problems: readonly ArgumentProblem[]): string {
  const said = problems.map(({ pointer, detail }) => `${pointer === "" ? "the arguments" : pointer}: ${detail}`);
  return `The arguments do not fit the tool's schema. ${said.join("; ")}.`;
}

function compile(schema: Json): Compiled {
  const tooMuch = beyondBounds(schema);
  if (tooMuch !== null) return { unusable: tooMuch };
  const dialect = typeof schema.$schema === "string" ? schema.$schema : "";
  const drafts = OLDER_DRAFT.test(dialect) ? [olderAjv, newAjv] : [newAjv, olderAjv];
  let problem = "";
  for (const make of drafts) {
    try {
      return { validate: make().compile(withoutDialect(schema)) };
    } catch (thrown) {
      problem ||= thrown instanceof Error ? thrown.message : "it is no JSON Schema";
    }
  }
  return { unusable: clip(problem, DETAIL_CHARS_MAX) };
}

/** One of its own for each schema: ids of one server's schemas mean nothing to another's. */
function newAjv(): Ajv2020 {
  return new Ajv2020(OPTIONS);
}

function olderAjv(): Ajv {
  return new Ajv(OPTIONS);
}

const engine = Object.assign((pattern: string, flags: string) => boundedPattern(pattern, flags), { code: "" });

const OPTIONS: Options = {
  strict: false,
  allErrors: true,
  // Formats are hints of many dialects; what a server means by one only it can say.
  validateFormats: false,
  validateSchema: false,
  // Without a prototype's members: `constructor` is a name like any other.
  ownProperties: true,
  messages: true,
  code: { regExp: engine },
  logger: false,
};

const patternContext: { expression: RegExp; text: string } = { expression: /(?:)/, text: "" };
createContext(patternContext);
const PATTERN_TEST = new Script("expression.test(text)");

/** A stranger's pattern is tried outside of our own loop's patience: one that backtracks for ever is given up. */
function boundedPattern(pattern: string, flags: string): { test(text: string): boolean } {
  const expression = new RegExp(pattern, flags);
  return {
    test(text) {
      patternContext.expression = expression;
      patternContext.text = text;
      try {
        return PATTERN_TEST.runInContext(patternContext, { timeout: PATTERN_MS }) === true;
      } catch (cause) {
        throw new Error("a pattern of the tool's schema takes too long to be matched", { cause });
      }
    },
  };
}

/** The dialect is settled by how the schema is compiled; it would be looked up as a reference. */
function withoutDialect({ $schema: _dialect, ...schema }: Json): AnySchemaObject {
  return schema;
}

/** What is too large to be compiled, in words; the walk itself is bounded. */
function beyondBounds(schema: Json): string | null {
  const open: { readonly value: unknown; readonly depth: number }[] = [{ value: schema, depth: 0 }];
  let nodes = 0;
  for (let at = open.pop(); at !== undefined; at = open.pop()) {
    const { value, depth } = at;
    if (typeof value !== "object" || value === null) continue;
    nodes += 1;
    if (depth > DEPTH_MAX) return `it is nested deeper than ${DEPTH_MAX} levels`;
    if (nodes > NODES_MAX) return `it has more than ${NODES_MAX} parts`;
    const foreign = isObject(value) ? foreignReference(value) : null;
    if (foreign !== null) return `it refers to ${clip(foreign, 100)}, and nothing is fetched for a schema`;
    for (const each of Object.values(value)) open.push({ value: each, depth: depth + 1 });
  }
  return JSON.stringify(schema).length > CHARS_MAX ? `it is longer than ${CHARS_MAX} characters` : null;
}

function foreignReference(node: Json): string | null {
  const reference = node.$ref ?? node.$dynamicRef;
  return typeof reference === "string" && /^[a-z][a-z0-9+.-]*:|^\/\//i.test(reference) ? reference : null;
}

function problemsOf(errors: readonly ErrorObject[]): readonly ArgumentProblem[] {
  const problems = new Map<string, ArgumentProblem>();
  for (const error of errors) {
    const problem = problemOf(error);
    problems.set(`${problem.pointer}\n${problem.detail}`, problem);
  }
  const all = [...problems.values()];
  if (all.length <= PROBLEMS_MAX) return all;
  const rest = { pointer: "", detail: `and ${all.length - PROBLEMS_MAX} more` };
  return [...all.slice(0, PROBLEMS_MAX), rest];
}

function problemOf({ instancePath, keyword, message, params }: ErrorObject): ArgumentProblem {
  const facts: Json = isObject(params) ? params : {};
  const named = facts.additionalProperty ?? facts.unevaluatedProperty;
  const allowed = facts.allowedValues ?? (keyword === "const" ? facts.allowedValue : undefined);
  const more = typeof named === "string" ? ` (${named})` : allowed === undefined ? "" : `: ${JSON.stringify(allowed)}`;
  return { pointer: instancePath, detail: clip(`${message ?? keyword}${more}`, DETAIL_CHARS_MAX) };
}
