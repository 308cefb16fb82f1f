/** A value that fits a JSON schema: for tools the caller forces and for answers that must be JSON. */
import { isObject, type JsonObject, objectOf, objectsOf, stringOf, stringsOf } from "../json.ts";

const DEEPEST = 6;

export interface SchemaText {
  /** Put wherever the schema asks for text. */
  readonly text: string;
  /** The whole schema, where local references are looked up. */
  readonly root: JsonObject;
}

export function valueFor(schema: JsonObject, { text, root }: SchemaText, depth: number = 0): unknown {
  const at = (next: unknown) => valueFor(objectOf(next), { text, root }, depth + 1);
  if (schema.const !== undefined) {
    return schema.const;
  }
  if (schema.default !== undefined) {
    return schema.default;
  }
  if (Array.isArray(schema.enum)) {
    const first: unknown = schema.enum[0];
    return first;
  }
  if (depth > DEEPEST) {
    return null;
  }
  if (typeof schema.$ref === "string") {
    return at(resolve(root, schema.$ref));
  }
  const choice = objectsOf(schema.anyOf ?? schema.oneOf ?? schema.allOf)[0];
  if (choice !== undefined) {
    return at({ ...choice, ...(isObject(schema.properties) ? { properties: schema.properties } : {}) });
  }
  switch (typeOf(schema)) {
    case "object":
      return objectFor(schema, at);
    case "array":
      return Array.from({ length: Math.max(1, numberOf(schema.minItems, 1)) }, () => at(schema.items));
    case "integer":
    case "number":
      return numberOf(schema.minimum, numberOf(schema.exclusiveMinimum, 0) + 1);
    case "boolean":
      return true;
    case "null":
      return null;
    default:
      return textFor(schema, text);
  }
}

/** Required properties only: fewer guesses. An object that requires none gets all of them. */
function objectFor(schema: JsonObject, at: (next: unknown) => unknown): JsonObject {
  const properties = objectOf(schema.properties);
  const required = stringsOf(schema.required).filter((name) => properties[name] !== undefined);
  const names = Array.isArray(schema.required) ? required : Object.keys(properties);
  return Object.fromEntries(names.map((name) => [name, at(properties[name])]));
}

function textFor(schema: JsonObject, text: string): string {
  const most = numberOf(schema.maxLength, text.length);
  return Array.from(text.toWellFormed()).slice(0, most).join("");
}

function typeOf(schema: JsonObject): string {
  const type = Array.isArray(schema.type) ? stringsOf(schema.type)[0] : stringOf(schema.type);
  return type === undefined || type === "" ? (isObject(schema.properties) ? "object" : "string") : type;
}

function numberOf(value: unknown, otherwise: number): number {
  return typeof value === "number" ? value : otherwise;
}

function resolve(root: JsonObject, ref: string): unknown {
  let at: unknown = root;
  for (const step of ref.split("/").slice(1)) {
    at = objectOf(at)[step.replaceAll("~1", "/").replaceAll("~0", "~")];
  }
  return at;
}
