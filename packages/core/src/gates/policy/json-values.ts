/** Values inside the arguments of a call, and what the tool's schema says of them. */
import type { JsonObject } from "./facts.ts";

export interface Leaf {
  readonly at: string;
  readonly value: string | number | boolean | null;
}

/** Deeper or more than this is judged as a value that nobody can place. */
const LEAF_LIMITS = { depth: 16, count: 2_000 } as const;

const USUAL_NAME = /^[A-Za-z_][A-Za-z0-9_]{0,31}$/;

export class TooManyValues extends Error {}

/** Every text, number, truth value and `null` of the arguments; names of members that the schema does not have, too. */
export function leavesOf(value: JsonObject, schema: JsonObject): readonly Leaf[] {
  const leaves: Leaf[] = [];
  const visit = (at: string, found: unknown, depth: number): void => {
    if (depth > LEAF_LIMITS.depth || leaves.length > LEAF_LIMITS.count) throw new TooManyValues();
    if (Array.isArray(found)) found.forEach((each, index) => visit(`${at}/${index}`, each, depth + 1));
    else if (typeof found === "object" && found !== null) {
      for (const [name, member] of Object.entries(found)) {
        const place = `${at}/${escapePart(name)}`;
        // A name that the model chose says as much as a value, unless it is one that a programmer would choose.
        if (!USUAL_NAME.test(name) && schemaAt(schema, place) === null) leaves.push({ at: `${place}#`, value: name });
        visit(place, member, depth + 1);
      }
    } else if (typeof found === "string" || typeof found === "number" || typeof found === "boolean" || found === null) {
      leaves.push({ at, value: found });
    }
  };
  visit("", value, 0);
  return leaves;
}

/** `undefined` when there is nothing at the pointer. */
export function valueAt(value: unknown, pointer: string): unknown {
  let found = value;
  for (const part of partsOf(pointer)) {
    if (typeof found !== "object" || found === null || !Object.hasOwn(found, part)) return undefined;
    // An object is a record of its members, and it has this one.
    found = (found as Readonly<Record<string, unknown>>)[part];
  }
  return found;
}

/** The schema of what stands at a pointer, or `null` when the tool's schema does not say. */
export function schemaAt(schema: unknown, pointer: string): JsonObject | null {
  let found = asObject(schema);
  for (const part of partsOf(pointer)) {
    if (found === null) return null;
    found = step(found, part, { root: schema, depth: 0 });
  }
  return found === null ? null : resolved(found, schema);
}

/** Values that the schema itself names for a place. */
export function isConstantOf(schema: JsonObject | null, value: unknown): boolean {
  if (schema === null) return false;
  const { enum: values, const: only, default: standing } = schema;
  return (
    only === value ||
    standing === value ||
    (Array.isArray(values) && values.includes(value)) ||
    choicesOf(schema).some((each) => isConstantOf(each, value))
  );
}

/** `depth`: how many choices within choices were entered; a schema may refer to itself. */
function step(
  schema: JsonObject,
  part: string,
  within: { readonly root: unknown; readonly depth: number },
): JsonObject | null {
  if (within.depth > LEAF_LIMITS.depth) return null;
  const here = resolved(schema, within.root);
  const properties = asObject(here.properties);
  const named = properties !== null && Object.hasOwn(properties, part) ? asObject(properties[part]) : null;
  if (named !== null) return named;
  const items = asObject(here.items);
  if (items !== null && /^\d+$/.test(part)) return items;
  for (const choice of choicesOf(here)) {
    const found = step(choice, part, { ...within, depth: within.depth + 1 });
    if (found !== null) return found;
  }
  return null;
}

/** A reference within the schema is followed once; anything else is not looked at. */
function resolved(schema: JsonObject, root: unknown): JsonObject {
  const { $ref } = schema;
  if (typeof $ref !== "string" || !$ref.startsWith("#/")) return schema;
  return asObject(valueAt(root, $ref.slice(1))) ?? schema;
}

function choicesOf(schema: JsonObject): readonly JsonObject[] {
  return [schema.anyOf, schema.oneOf, schema.allOf].flatMap((each) =>
    Array.isArray(each) ? each.map(asObject).filter((one) => one !== null) : [],
  );
}

function asObject(value: unknown): JsonObject | null {
  // An object is a record of its members, whatever they are.
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as JsonObject) : null;
}

export function partsOf(pointer: string): readonly string[] {
  if (pointer === "") return [];
  return pointer
    .slice(1)
    .split("/")
    .map((part) => part.replaceAll("~1", "/").replaceAll("~0", "~"));
}

function escapePart(name: string): string {
  return name.replaceAll("~", "~0").replaceAll("/", "~1");
}
